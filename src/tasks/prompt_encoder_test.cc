// Tokens of prompts in segments: exactly those of the whole prompt, whatever stands at the joints.
#include "tasks/prompt_encoder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "support/temp_directory.h"
#include "tasks/ask_record.h"

namespace banyan {
namespace {

using testing_support::TempDirectory;

const std::filesystem::path kData = BANYAN_SOURCE_DIR "/tests/data/tokenizers";
const std::filesystem::path kShared = BANYAN_GOLDEN_DIR "/../tokenizers";

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

void CheckTokenizer(const std::shared_ptr<const Text>& text, bool expect_joins) {
  std::mt19937 random(11);
  for (const bool add_bos : {false, true}) {
    PromptEncoder encoder(text, add_bos);
    for (const size_t bytes : {0u, 40u, 3000u}) {
      if (add_bos && bytes != 40) continue;  // the beginning is the same for every length
      for (const char* end : kEnds) {
        const std::string context = Words(random, bytes) + end;
        for (const char* start : kStarts) {
          const std::string question = std::string(start) + " and why";
          const std::vector<PromptPart> parts = {{"Answer.\n", false, PromptLevel::kShared},
                                                 {context, true, PromptLevel::kRecord},
                                                 {question, true, PromptLevel::kQuestion},
                                                 {"\nAnswer:", false, PromptLevel::kQuestion}};
          std::vector<ChatText> pieces;
          for (const PromptPart& part : parts) {
            pieces.push_back({std::string(part.text), part.from_user});
          }
          const EncodedPrompt prompt = encoder.Encode(parts);
          std::vector<TokenId> whole = text->EncodeChat(pieces);
          if (add_bos && !prompt.tokens.empty() && text->bos() == prompt.tokens.front() &&
              (whole.empty() || whole.front() != prompt.tokens.front())) {
            whole.insert(whole.begin(), prompt.tokens.front());
          }
          ASSERT_EQ(prompt.tokens, whole)
              << "context ends '" << end << "', question '" << start << "', " << bytes << " bytes";
          ASSERT_LE(prompt.shared_end, prompt.record_end);
          ASSERT_LE(prompt.record_end, prompt.tokens.size());
          if (bytes >= 3000) {
            ASSERT_GT(prompt.record_end - prompt.shared_end, 300u);
          }
          size_t kept = 0;
          const std::vector<TokenId> longer = encoder.Continue(parts, prompt, " yes", kept);
          pieces.push_back({" yes", true});
          std::vector<TokenId> whole_longer = text->EncodeChat(pieces);
          if (whole.size() > whole_longer.size() || longer.size() != whole_longer.size()) {
            whole_longer.insert(whole_longer.begin(), longer.front());  // BOS
          }
          ASSERT_EQ(longer, whole_longer);
        }
      }
    }
    if (expect_joins && !add_bos) {
      EXPECT_GT(encoder.joined(), 250);
    }
  }
}

TEST(PromptEncoder, OwnTokenizers) {
  for (const char* name : {"byte_level_bpe", "sentencepiece_bpe", "unigram", "wordpiece"}) {
    SCOPED_TRACE(name);
    CheckTokenizer(Text::Load((kData / (std::string(name) + ".json")).string()), false);
  }
}

TEST(PromptEncoder, RealTokenizers) {
  for (const char* name : {"gpt2", "llama2", "llama3_1", "qwen3"}) {
    SCOPED_TRACE(name);
    const std::filesystem::path archive = kShared / (std::string(name) + ".tgz");
    if (!std::filesystem::exists(archive)) GTEST_SKIP() << archive << " is not here";
    const TempDirectory folder;
    const std::string unpack =
        "tar xzf '" + archive.string() + "' -C '" + folder.path().string() + "'";
    ASSERT_EQ(std::system(unpack.c_str()), 0);
    CheckTokenizer(Text::Load(folder.path().string()), true);
  }
}

// The segments of sibling questions are the same, so that they are shared.
TEST(PromptEncoder, SiblingsHaveTheSameContextSegment) {
  const auto text = Text::Load((kData / "byte_level_bpe.json").string());
  PromptEncoder encoder(text, false);
  std::mt19937 random(5);
  const std::string context = Words(random, 2000);
  std::vector<TokenId> first;
  for (const char* question : {"What?", "3 of them?", "\"Who\"?", "x"}) {
    const std::vector<PromptPart> parts = {{"Read.\n", false, PromptLevel::kShared},
                                           {context, true, PromptLevel::kRecord},
                                           {"\n\nQuestion:", true, PromptLevel::kRecord},
                                           {" ", true, PromptLevel::kQuestion},
                                           {question, true, PromptLevel::kQuestion}};
    const EncodedPrompt prompt = encoder.Encode(parts);
    const std::vector<TokenId> shared(prompt.tokens.begin(),
                                      prompt.tokens.begin() + static_cast<long>(prompt.record_end));
    if (first.empty()) first = shared;
    EXPECT_EQ(shared, first) << question;
  }
}

}  // namespace
}  // namespace banyan
