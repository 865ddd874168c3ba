// Splits pieces at matches and arranges these by SplitBehavior.
#include "text/tokenizer/pretokenizer.h"

#include <string_view>
#include <utility>

#include "text/tokenizer/vocabulary.h"
#include "text/unicode.h"

namespace banyan {

namespace {

struct Part {  // a part of a piece: a match, or the text between two matches
  TextRange range;
  bool is_match;
};

std::vector<Part> PartsOf(TextRange piece, const std::vector<TextRange>& matches, bool invert) {
  std::vector<Part> parts;
  parts.reserve(matches.size() * 2 + 1);
  size_t done = piece.begin;
  for (const TextRange& match : matches) {
    if (match.begin > done) parts.push_back({{done, match.begin}, invert});
    parts.push_back({match, !invert});
    done = match.end;
  }
  if (done < piece.end) parts.push_back({{done, piece.end}, invert});
  return parts;
}

// MergedWithNext is MergedWithPrevious read from the right.
std::vector<TextRange> MergeWithNeighbour(const std::vector<Part>& parts, bool with_next) {
  std::vector<TextRange> out;
  bool previous_match = false;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& part = with_next ? parts[parts.size() - 1 - i] : parts[i];
    if (part.is_match && !previous_match && !out.empty()) {
      (with_next ? out.back().begin : out.back().end) =
          with_next ? part.range.begin : part.range.end;
    } else {
      out.push_back(part.range);
    }
    previous_match = part.is_match;
  }
  if (with_next) return {out.rbegin(), out.rend()};
  return out;
}

std::vector<TextRange> Arrange(const std::vector<Part>& parts, SplitBehavior behavior) {
  std::vector<TextRange> out;
  switch (behavior) {
    case SplitBehavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.is_match) out.push_back(part.range);
      }
      return out;
    case SplitBehavior::kIsolated:
      for (const Part& part : parts) out.push_back(part.range);
      return out;
    case SplitBehavior::kContiguous: {
      bool previous_match = false;
      for (const Part& part : parts) {
        if (part.is_match == previous_match && !out.empty()) {
          out.back().end = part.range.end;
        } else {
          out.push_back(part.range);
        }
        previous_match = part.is_match;
      }
      return out;
    }
    case SplitBehavior::kMergedWithPrevious:
      return MergeWithNeighbour(parts, false);
    case SplitBehavior::kMergedWithNext:
      return MergeWithNeighbour(parts, true);
  }
  return out;
}

// find(view, matches) appends the matches in `view`, relative to its start.
template <typename Find>
void SplitPieces(PreTokenized& input, SplitBehavior behavior, bool invert, Find find) {
  std::vector<TextRange> out;
  std::vector<TextRange> matches;
  for (const TextRange& piece : input.pieces) {
    matches.clear();
    find(std::string_view(input.text).substr(piece.begin, piece.end - piece.begin), matches);
    for (TextRange& match : matches) {
      match.begin += piece.begin;
      match.end += piece.begin;
    }
    for (const TextRange& range : Arrange(PartsOf(piece, matches, invert), behavior)) {
      if (range.end > range.begin) out.push_back(range);
    }
  }
  const size_t old_start = input.pieces.empty() ? 0 : input.pieces.front().begin;
  input.at_start = input.at_start && !out.empty() && out.front().begin == old_start;
  input.pieces = std::move(out);
}

template <typename IsMatch>
void FindCharacters(std::string_view text, IsMatch is_match, std::vector<TextRange>& matches) {
  for (size_t i = 0; i < text.size();) {
    const Utf8Character c = ReadUtf8(text, i);
    if (is_match(c.code)) matches.push_back({i, i + c.length});
    i += c.length;
  }
}

}  // namespace

PreTokenizerStep SplitRegexStep(std::shared_ptr<const Regex> pattern, SplitBehavior behavior,
                                bool invert) {
  return [pattern = std::move(pattern), behavior, invert](PreTokenized& input) {
    SplitPieces(input, behavior, invert,
                [&](std::string_view text, std::vector<TextRange>& matches) {
                  pattern->FindAll(text, matches);
                });
  };
}

PreTokenizerStep SplitStringStep(std::string pattern, SplitBehavior behavior, bool invert) {
  return [pattern = std::move(pattern), behavior, invert](PreTokenized& input) {
    SplitPieces(input, behavior, invert,
                [&](std::string_view text, std::vector<TextRange>& matches) {
                  if (pattern.empty()) return;
                  for (size_t at = text.find(pattern); at != std::string_view::npos;
                       at = text.find(pattern, at + pattern.size())) {
                    matches.push_back({at, at + pattern.size()});
                  }
                });
  };
}

PreTokenizerStep SplitCharacterStep(std::function<bool(char32_t)> is_match,
                                    SplitBehavior behavior) {
  return [is_match = std::move(is_match), behavior](PreTokenized& input) {
    SplitPieces(input, behavior, false,
                [&](std::string_view text, std::vector<TextRange>& matches) {
                  FindCharacters(text, is_match, matches);
                });
  };
}

PreTokenizerStep WhitespaceStep() {
  return [](PreTokenized& input) {
    SplitPieces(input, SplitBehavior::kRemoved, true,
                [](std::string_view text, std::vector<TextRange>& matches) {
                  int previous = 0;  // 0 space, 1 word, 2 other
                  for (size_t i = 0; i < text.size();) {
                    const Utf8Character c = ReadUtf8(text, i);
                    const int kind = IsWhitespace(c.code) ? 0 : IsWordCharacter(c.code) ? 1 : 2;
                    if (kind != 0 && kind == previous) {
                      matches.back().end = i + c.length;
                    } else if (kind != 0) {
                      matches.push_back({i, i + c.length});
                    }
                    previous = kind;
                    i += c.length;
                  }
                });
  };
}

PreTokenizerStep BertPreTokenizerStep() {
  return [](PreTokenized& input) {
    SplitPieces(input, SplitBehavior::kRemoved, false,
                [](std::string_view text, std::vector<TextRange>& matches) {
                  FindCharacters(text, IsWhitespace, matches);
                });
    SplitPieces(input, SplitBehavior::kIsolated, false,
                [](std::string_view text, std::vector<TextRange>& matches) {
                  FindCharacters(text, IsPunctuation, matches);
                });
  };
}

PreTokenizerStep MetaspaceStep(MetaspaceOptions options) {
  return [options = std::move(options)](PreTokenized& input) {
    PreTokenized out;
    out.at_start = input.at_start;
    out.text.reserve(input.text.size() + input.pieces.size() * options.replacement.size());
    for (size_t i = 0; i < input.pieces.size(); ++i) {
      const std::string_view piece =
          std::string_view(input.text)
              .substr(input.pieces[i].begin, input.pieces[i].end - input.pieces[i].begin);
      const size_t begin = out.text.size();
      const bool wanted = options.prepend == PrependScheme::kAlways ||
                          (options.prepend == PrependScheme::kFirst && i == 0 && input.at_start);
      if (wanted && piece.front() != ' ' && !piece.starts_with(options.replacement)) {
        out.text += options.replacement;
      }
      for (const char c : piece) {
        if (c == ' ') {
          out.text += options.replacement;
        } else {
          out.text.push_back(c);
        }
      }
      out.pieces.push_back({begin, out.text.size()});
    }
    input = std::move(out);
    if (!options.split) return;
    SplitPieces(input, SplitBehavior::kMergedWithNext, false,
                [&](std::string_view text, std::vector<TextRange>& matches) {
                  const size_t length = options.replacement.size();
                  for (size_t at = text.find(options.replacement); at != std::string_view::npos;
                       at = text.find(options.replacement, at + length)) {
                    matches.push_back({at, at + length});
                  }
                });
  };
}

PreTokenizerStep CutAtMetaspaceStep() {
  return [](PreTokenized& input) {
    constexpr std::string_view kMetaspace = "\u2581";
    const std::string_view text = input.text;
    std::vector<TextRange> out;
    for (const TextRange& piece : input.pieces) {
      size_t begin = piece.begin;
      size_t after_previous = piece.begin;  // end of the previous "▁", where a run continues
      for (size_t at = text.find(kMetaspace, begin); at < piece.end;
           at = text.find(kMetaspace, at + kMetaspace.size())) {
        if (at != after_previous) {
          out.push_back({begin, at});
          begin = at;
        }
        after_previous = at + kMetaspace.size();
      }
      out.push_back({begin, piece.end});
    }
    input.pieces = std::move(out);
  };
}

PreTokenizerStep ByteLevelPreTokenizerStep(std::shared_ptr<const Regex> gpt2_pattern,
                                           bool add_prefix_space) {
  return [gpt2_pattern = std::move(gpt2_pattern), add_prefix_space](PreTokenized& input) {
    if (add_prefix_space) {
      PreTokenized spaced;
      spaced.at_start = input.at_start;
      for (const TextRange& piece : input.pieces) {
        const size_t begin = spaced.text.size();
        if (input.text[piece.begin] != ' ') spaced.text.push_back(' ');
        spaced.text.append(input.text, piece.begin, piece.end - piece.begin);
        spaced.pieces.push_back({begin, spaced.text.size()});
      }
      input = std::move(spaced);
    }
    if (gpt2_pattern != nullptr) {
      SplitPieces(input, SplitBehavior::kIsolated, false,
                  [&](std::string_view text, std::vector<TextRange>& matches) {
                    gpt2_pattern->FindAll(text, matches);
                  });
    }
    std::string spelled;
    spelled.reserve(input.text.size() * 5 / 4);
    for (TextRange& piece : input.pieces) {
      const size_t begin = spelled.size();
      AppendByteLevel(std::string_view(input.text).substr(piece.begin, piece.end - piece.begin),
                      spelled);
      piece = {begin, spelled.size()};
    }
    input.text = std::move(spelled);
  };
}

}  // namespace banyan
