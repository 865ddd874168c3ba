// Compiles regular expressions, schemas, templates and spans; walks the automaton.
#include "constrain/constraint.h"

#include <fmt/format.h>

#include <bit>
#include <bitset>
#include <utility>

#include "banyan/constrain.h"
#include "base/error.h"
#include "base/hash.h"
#include "constrain/expression.h"
#include "constrain/json_schema.h"
#include "constrain/regex_parser.h"

namespace banyan {
namespace {

std::bitset<256> BytesWithoutToken(const TokenTrie& trie) {
  std::bitset<256> without;
  for (size_t b = 0; b < 256; ++b) {
    const char byte = static_cast<char>(b);
    without[b] = !trie.LongestPrefix({&byte, 1});
  }
  return without;
}

// Where every byte has a token of its own, a text that can be completed in bytes can be completed
// in tokens. Some vocabularies lack bytes of rare characters (SmolLM2: the control characters and
// all of planes 4 to 11): texts with these are excluded. A missing printable ASCII byte is refused.
std::bitset<256> ExcludedBytes(const Nfa& nfa, const TokenTrie& trie) {
  const std::bitset<256> without = BytesWithoutToken(trie);
  for (const Nfa::Edge& edge : nfa.edges()) {
    for (size_t byte = edge.low; byte <= edge.high; ++byte) {
      if (!without[byte] || byte < 0x20 || byte >= 0x7F) continue;
      Throw(ErrorKind::kUnsupported,
            "the constraint may need the byte 0x{:02X}, for which the vocabulary has no token",
            byte);
    }
  }
  return without;
}

std::shared_ptr<const Constraint> Compile(const Expression& expression,
                                          std::shared_ptr<const TokenTrie> trie,
                                          ConstraintOptions options) {
  BANYAN_CHECK(trie != nullptr);
  const Nfa nfa(expression);
  const std::bitset<256> without = ExcludedBytes(nfa, *trie);
  Dfa dfa(nfa, {}, without);
  if (dfa.start() == Dfa::kDead) {
    Throw(ErrorKind::kUnsupported,
          "the constraint needs a byte for which the vocabulary has no token");
  }
  return std::make_shared<const Constraint>(
      std::make_unique<Constraint::Parts>(std::move(dfa), std::move(trie), std::move(options)));
}

ExpressionPtr TemplateOf(std::span<const JsonSlot> slots, std::span<const std::string> after,
                         const ExpressionPtr& copied) {
  std::vector<ExpressionPtr> parts;
  for (const JsonSlot& slot : slots) {
    parts.push_back(Literal(slot.before));
    parts.push_back(ReadJsonSchema(slot.schema, /*spaced=*/true, copied));
  }
  std::vector<ExpressionPtr> ends;
  for (const std::string& end : after) ends.push_back(end.empty() ? Nothing() : Literal(end));
  if (!ends.empty()) parts.push_back(Choice(std::move(ends)));
  return Sequence(std::move(parts));
}

}  // namespace

Dfa CopyAutomaton(std::string_view text, std::span<const std::string> others,
                  const std::bitset<256>& without, const DfaLimits& limits, std::string_view before,
                  bool joined) {
  ExpressionPtr spans = SpanOf(MakeSpanSource(text, without), SpanForm::kPlain);
  if (joined) spans = Joined(spans, Literal("; "));
  std::vector<ExpressionPtr> choices = {spans};
  for (const std::string& other : others) choices.push_back(Literal(other));
  ExpressionPtr expression = Choice(std::move(choices));
  if (expression->kind == Expression::Kind::kNever) return Dfa::OfNothing();
  if (!before.empty()) expression = Sequence({Literal(before), expression});
  try {
    return Dfa(Nfa(*expression), limits, without);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kLimit) throw;
    Throw(ErrorKind::kLimit,
          "the text of {} bytes is too long to copy answers from, or repeats itself too much",
          text.size());
  }
}

Constraint::Constraint(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Constraint::~Constraint() = default;

std::shared_ptr<const Constraint> Constraint::FromRegex(std::string_view pattern,
                                                        std::shared_ptr<const TokenTrie> trie,
                                                        ConstraintOptions options) {
  return Compile(*WholeMatch(ParsePattern(pattern)), std::move(trie), std::move(options));
}

std::shared_ptr<const Constraint> Constraint::FromJsonSchema(std::string_view schema,
                                                             std::shared_ptr<const TokenTrie> trie,
                                                             ConstraintOptions options) {
  return Compile(*ReadJsonSchema(schema), std::move(trie), std::move(options));
}

void Constraint::CheckRegex(std::string_view pattern) { WholeMatch(ParsePattern(pattern)); }

void Constraint::CheckJsonSchema(std::string_view schema) { ReadJsonSchema(schema); }

std::shared_ptr<const Constraint> Constraint::FromJsonTemplate(
    std::span<const JsonSlot> slots, std::span<const std::string> after,
    std::shared_ptr<const TokenTrie> trie, ConstraintOptions options) {
  return Compile(*TemplateOf(slots, after, nullptr), std::move(trie), std::move(options));
}

std::shared_ptr<const Constraint> Constraint::FromCopyTemplate(
    std::span<const JsonSlot> slots, std::span<const std::string> after, std::string_view text,
    std::shared_ptr<const TokenTrie> trie, ConstraintOptions options) {
  BANYAN_CHECK(trie != nullptr);
  const ExpressionPtr copied =
      SpanOf(MakeSpanSource(text, BytesWithoutToken(*trie)), SpanForm::kPlain);
  const ExpressionPtr whole = TemplateOf(slots, after, copied);
  if (whole->kind == Expression::Kind::kNever) {
    Throw(ErrorKind::kInput, "there is nothing in the text that could be copied");
  }
  return Compile(*whole, std::move(trie), std::move(options));
}

std::shared_ptr<const Constraint> Constraint::FromCopies(std::string_view text,
                                                         std::span<const std::string> others,
                                                         std::shared_ptr<const TokenTrie> trie,
                                                         ConstraintOptions options) {
  return CopiesAfter({}, text, others, std::move(trie), std::move(options));
}

std::shared_ptr<const Constraint> CopiesAfter(std::string_view before, std::string_view text,
                                              std::span<const std::string> others,
                                              std::shared_ptr<const TokenTrie> trie,
                                              ConstraintOptions options) {
  BANYAN_CHECK(trie != nullptr);
  const std::bitset<256> without = BytesWithoutToken(*trie);
  for (const char c : before) {
    if (without[static_cast<std::uint8_t>(c)]) before = {};
  }
  Dfa dfa = CopyAutomaton(text, others, without, {}, before, options.joined);
  if (dfa.start() == Dfa::kDead) {
    Throw(ErrorKind::kInput, "there is nothing in the text that could be copied");
  }
  return std::make_shared<const Constraint>(
      std::make_unique<Constraint::Parts>(std::move(dfa), std::move(trie), std::move(options)));
}

std::shared_ptr<const Constraint> Constraint::FromCopies(std::span<const std::string_view> texts,
                                                         std::span<const std::string> others,
                                                         std::shared_ptr<const TokenTrie> trie,
                                                         ConstraintOptions options) {
  // No span crosses a byte that UTF-8 never has.
  std::string joined;
  for (const std::string_view text : texts) {
    joined += text;
    joined += '\xFF';
  }
  return FromCopies(joined, others, std::move(trie), std::move(options));
}

std::optional<std::string> Constraint::Completion(std::string_view text) const {
  const Dfa& dfa = parts_->dfa;
  const Dfa::State first = dfa.Next(dfa.start(), text);
  if (first == Dfa::kDead) return std::nullopt;
  struct Step {
    Dfa::State state;
    size_t before;  // index of the step before it
    char byte;
  };
  std::vector<Step> steps = {{first, 0, 0}};
  std::vector<bool> met(dfa.states());
  met[first] = true;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (dfa.accepting(steps[i].state)) {
      std::string bytes;
      for (size_t at = i; at > 0; at = steps[at].before) bytes += steps[at].byte;
      return std::string(bytes.rbegin(), bytes.rend());
    }
    for (int b = 0; b < 256; ++b) {
      const Dfa::State next = dfa.Next(steps[i].state, static_cast<std::uint8_t>(b));
      if (next == Dfa::kDead || met[next]) continue;
      met[next] = true;
      steps.push_back({next, i, static_cast<char>(b)});
    }
  }
  return std::nullopt;
}

std::string Constraint::BytesOf(std::span<const TokenId> tokens) const {
  std::string bytes;
  for (const TokenId token : tokens) bytes += parts_->trie->Bytes(token);
  return bytes;
}

bool Constraint::Matches(std::string_view text) const {
  return parts_->dfa.accepting(parts_->dfa.Next(parts_->dfa.start(), text));
}

size_t Constraint::states() const { return parts_->dfa.states(); }

size_t Constraint::masks_computed() const { return parts_->masks.counts().computed; }

ConstraintState::ConstraintState(std::shared_ptr<const Constraint> constraint)
    : constraint_(std::move(constraint)), state_(constraint_->parts().dfa.start()) {}

bool ConstraintState::Advance(TokenId token) {
  const Constraint::Parts& parts = constraint_->parts();
  const std::string_view bytes = parts.trie->Bytes(token);
  if (bytes.empty()) return false;
  const Dfa::State next = parts.dfa.Next(state_, bytes);
  if (next == Dfa::kDead) return false;
  state_ = next;
  return true;
}

std::shared_ptr<const std::vector<std::uint32_t>> ConstraintState::AllowedMask() const {
  return constraint_->parts().masks.Get(state_);
}

bool ConstraintState::MayEnd() const { return constraint_->parts().dfa.accepting(state_); }

bool ConstraintState::MustEnd() const {
  const Constraint::Parts& parts = constraint_->parts();
  if (parts.end_when_complete && parts.dfa.accepting(state_)) return true;
  return !parts.dfa.can_continue(state_);
}

std::vector<TokenId> MaskTokens(std::span<const std::uint32_t> mask) {
  std::vector<TokenId> tokens;
  for (size_t w = 0; w < mask.size(); ++w) {
    for (std::uint32_t word = mask[w]; word != 0; word &= word - 1) {
      tokens.push_back(static_cast<TokenId>(w * 32) + std::countr_zero(word));
    }
  }
  return tokens;
}

std::string TokensDigest(std::span<const TokenId> tokens) {
  return ToHex(Sha256().Add(fmt::format("{}", fmt::join(tokens, ","))).Finish());
}

}  // namespace banyan
