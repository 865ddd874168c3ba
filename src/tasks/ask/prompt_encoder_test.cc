// Tokens of prompts in segments: exactly those of the whole prompt, whatever stands at the joints.
#include "tasks/prompt/prompt_encoder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "support/oracle_folders.h"
#include "tasks/ask/ask_record.h"

namespace banyan {
namespace {

const std::filesystem::path kData = BANYAN_SOURCE_DIR "/tests/data/tokenizers";

// Ends of contexts and beginnings of questions that tempt tokens to cross the joint.
const char* const kEnds[] = {
    "",        " ",      "   ",  "\n",        "\n\n",   "\n \n",
    "\t",      "12",     "1 ",   "wor",       "word",   "don'",
    "don't",   "...",    ". ",   "\u00e9",    "\u5b57", "\U0001F44D\U0001F3FD",
    "e\u0301", "\u00a0", "</s>", "<|im_end|>"};
const char* const kStarts[] = {
    "What?", " what?", "\nwhat",     "34",           "d of it", "'t it",        ".",
    "s",     "\u0301", "\U0001F3FD", "  two spaces", "\n\n",    "\u5b57\u5b57", "<s>"};

std::string Words(std::mt19937& random, size_t bytes) {
  static const char* const words[] = {"the",           "tower", "was",  "built", "in",
                                      "1889",          "by",    "and,", "it's",  "Paris",
                                      "\u00e9t\u00e9", "(see)", "a-b",  "x"};
  std::string text;
  while (text.size() < bytes) {
    text += words[random() % std::size(words)];
    text += random() % 17 == 0 ? ".\n" : " ";
  }
  return text;
}

// The slow way: the whole prompt, and each beginning of it alone.
EncodedPrompt EncodeSlowly(const Text& text, std::span<const PromptPart> parts, bool add_bos) {
  const auto encode = [&](PromptLevel below) {
    std::vector<ChatText> pieces;
    for (const PromptPart& part : parts) {
      if (part.level < below) pieces.push_back({std::string(part.text), part.from_user});
    }
    std::vector<TokenId> tokens = text.EncodeChat(pieces);
    const std::vector<TokenId> added = text.Encode("", true, true);
    if (add_bos && text.bos() && !added.empty() && added.front() == *text.bos()) {
      tokens.insert(tokens.begin(), *text.bos());
    }
    return tokens;
  };
  constexpr auto kAll = static_cast<PromptLevel>(static_cast<int>(PromptLevel::kQuestion) + 1);
  EncodedPrompt prompt;
  prompt.tokens = encode(kAll);
  const auto common = [&](const std::vector<TokenId>& beginning) {
    size_t count = 0;
    while (count < std::min(beginning.size(), prompt.tokens.size()) &&
           beginning[count] == prompt.tokens[count]) {
      ++count;
    }
    return count;
  };
  prompt.record_end = common(encode(PromptLevel::kQuestion));
  prompt.shared_end = std::min(common(encode(PromptLevel::kRecord)), prompt.record_end);
  return prompt;
}

void ExpectSlowly(const std::shared_ptr<const Text>& text, bool add_bos,
                  std::span<const PromptPart> parts, PromptEncoder& encoder) {
  const EncodedPrompt prompt = encoder.Encode(parts);
  const EncodedPrompt slow = EncodeSlowly(*text, parts, add_bos);
  ASSERT_EQ(prompt.tokens, slow.tokens);
  ASSERT_EQ(prompt.record_end, slow.record_end);
  ASSERT_EQ(prompt.shared_end, slow.shared_end);
  std::vector<PromptPart> longer(parts.begin(), parts.end());
  longer.push_back({" yes", true, PromptLevel::kQuestion});
  size_t kept = 0;
  ASSERT_EQ(encoder.Continue(parts, prompt, " yes", kept),
            EncodeSlowly(*text, longer, add_bos).tokens);
  ASSERT_LE(kept, prompt.tokens.size());
}

// All ends of contexts with all beginnings of questions.
void CheckJoints(const std::shared_ptr<const Text>& text) {
  std::mt19937 random(11);
  for (const bool add_bos : {false, true}) {
    PromptEncoder encoder(text, add_bos);
    for (const size_t bytes : {0u, 40u, 3000u}) {
      if (add_bos && bytes != 40) continue;  // the beginning is the same for every length
      for (const char* end : kEnds) {
        const std::string context = Words(random, bytes) + end;
        for (const char* start : kStarts) {
          SCOPED_TRACE(testing::Message() << "context ends '" << end << "', question '" << start
                                          << "', " << bytes << " bytes");
          const std::string question = std::string(start) + " and why";
          const std::vector<PromptPart> parts = {{"Answer.\n", false, PromptLevel::kShared},
                                                 {context, true, PromptLevel::kRecord},
                                                 {question, true, PromptLevel::kQuestion},
                                                 {"\nAnswer:", false, PromptLevel::kQuestion}};
          ASSERT_NO_FATAL_FAILURE(ExpectSlowly(text, add_bos, parts, encoder));
        }
      }
    }
  }
}

// Prompts of all kinds in a random order: equal beginnings, changed ones, none.
void CheckRandomPrompts(const std::shared_ptr<const Text>& text) {
  static const char* const kParts[] = {"the",
                                       " tower",
                                       " was",
                                       " built",
                                       " in 1889",
                                       "it's",
                                       "a",
                                       " b",
                                       " ",
                                       "  ",
                                       "\n",
                                       "\n\n",
                                       ".",
                                       ", and",
                                       "\u00e9",
                                       " \u00e9t\u00e9",
                                       " \u0434\u043e\u043c",
                                       " \u043e\u043d",
                                       "\u5b57",
                                       " \u5b57",
                                       "e\u0301",
                                       " \u0301",
                                       "\u00a0",
                                       "<s>",
                                       "</s>",
                                       "<|im_end|>",
                                       "<|im_start|>",
                                       "<think>",
                                       "\xff",
                                       " x\xc3",
                                       " \u2581y",
                                       "\U0001F600"};
  std::mt19937 random(12);
  const auto write = [&](size_t most) {
    std::string part;
    for (size_t i = random() % (most + 1); i > 0; --i) part += kParts[random() % std::size(kParts)];
    return part;
  };
  PromptEncoder encoder(text, false);
  std::string instruction, context, label;
  bool instruction_from_user = true;
  for (int round = 0; round < 1500; ++round) {
    if (random() % 40 == 0) {
      instruction = write(12);
      instruction_from_user = random() % 2 == 0;
    }
    if (random() % 6 == 0) context = write(40);
    if (random() % 6 == 0) label = write(3);
    const std::string question = write(12);
    const std::vector<PromptPart> parts = {
        {"<|im_start|>", false, PromptLevel::kShared},
        {instruction, instruction_from_user, PromptLevel::kShared},
        {context, true, PromptLevel::kRecord},
        {label, random() % 9 != 0, PromptLevel::kRecord},
        {question, true, PromptLevel::kQuestion},
        {"<|im_end|>\n", false, PromptLevel::kQuestion}};
    SCOPED_TRACE(testing::Message() << "'" << instruction << "', '" << context << "', '" << label
                                    << "', '" << question << "'");
    ASSERT_NO_FATAL_FAILURE(ExpectSlowly(text, false, parts, encoder));
  }
}

TEST(PromptEncoder, OwnTokenizers) {
  for (const char* name : {"byte_level_bpe", "sentencepiece_bpe", "unigram", "wordpiece"}) {
    SCOPED_TRACE(name);
    const auto text = Text::Load((kData / (std::string(name) + ".json")).string());
    CheckJoints(text);
    CheckRandomPrompts(text);
  }
}

TEST(PromptEncoder, ShippedModel) {
  const auto text = Text::Load(BANYAN_SOURCE_DIR "/models/banyan-reader-34m.gguf");
  ASSERT_TRUE(text->allows_cuts_before_words());
  CheckJoints(text);
  CheckRandomPrompts(text);
}

TEST(PromptEncoder, RealTokenizers) {
  for (const char* name : {"gpt2", "llama2", "llama3_1", "qwen3"}) {
    SCOPED_TRACE(name);
    testing_support::ForEachTokenizer(
        name, [](const std::filesystem::path& folder, const std::filesystem::path&) {
          const auto text = Text::Load(folder.string());
          EXPECT_TRUE(text->allows_cuts_before_words()) << folder;
          CheckJoints(text);
          CheckRandomPrompts(text);
        });
  }
}

}  // namespace
}  // namespace banyan
