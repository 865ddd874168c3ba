// What prompts share: tokenised once, the same segment for all, and one writer for many threads.
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tasks/prompt/prompt.h"
#include "tasks/prompt/prompt_encoder.h"

namespace banyan {
namespace {

const std::filesystem::path kTokenizers = BANYAN_SOURCE_DIR "/tests/data/tokenizers";
const char* const kShippedModel = BANYAN_SOURCE_DIR "/models/banyan-reader-34m.gguf";

std::string RandomWords(std::mt19937& random, size_t bytes) {
  static const char* const words[] = {"harbour", "Lisbon",        "1889", "ferry", "the",
                                      "of",      "\u00e9t\u00e9", "it's", "code",  "KT-4821"};
  std::string text;
  while (text.size() < bytes) {
    text += words[random() % std::size(words)];
    text += random() % 17 == 0 ? ".\n" : " ";
  }
  return text;
}

struct Record {
  std::string context;
  std::vector<std::string> questions;
};

std::vector<Record> Records() {
  std::mt19937 random(2);
  std::vector<Record> records(60);
  for (Record& record : records) {
    record.context = RandomWords(random, 100 + random() % 600);
    for (int i = 0; i < 5; ++i) record.questions.push_back(RandomWords(random, 60) + "?");
  }
  return records;
}

std::vector<EncodedPrompt> Encode(const Record& record, const PromptWriter& writer,
                                  PromptEncoder& encoder) {
  std::vector<EncodedPrompt> prompts;
  for (const std::string& question : record.questions) {
    prompts.push_back(
        encoder.Encode(writer.Write([&](const std::string& name) -> std::optional<PromptVariable> {
          if (name == "context") return PromptVariable{record.context, PromptLevel::kRecord};
          if (name == "question") return PromptVariable{question, PromptLevel::kQuestion};
          if (name == "instruction") return PromptVariable{"Answer.", PromptLevel::kShared};
          return std::nullopt;
        })));
  }
  return prompts;
}

// One writer and one tokenizer, and an encoder for each thread.
TEST(PromptSharing, EachRecordHasThePromptsThatItHasAlone) {
  const auto text = Text::Load(kShippedModel);
  const PromptWriter writer(text, AskOptions());
  const std::vector<Record> records = Records();
  std::vector<std::vector<EncodedPrompt>> found(records.size());
  constexpr size_t kThreads = 4;
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&, t] {
        PromptEncoder encoder(text, !writer.uses_chat());
        for (size_t i = t; i < records.size(); i += kThreads) {
          found[i] = Encode(records[i], writer, encoder);
        }
      });
    }
  }
  for (size_t i = 0; i < records.size(); ++i) {
    PromptEncoder alone(text, !writer.uses_chat());
    const std::vector<EncodedPrompt> wanted = Encode(records[i], writer, alone);
    ASSERT_EQ(found[i].size(), wanted.size());
    for (size_t q = 0; q < wanted.size(); ++q) {
      EXPECT_EQ(found[i][q].tokens, wanted[q].tokens) << i << ", " << q;
      EXPECT_EQ(found[i][q].shared_end, wanted[q].shared_end) << i << ", " << q;
      EXPECT_EQ(found[i][q].record_end, wanted[q].record_end) << i << ", " << q;
    }
  }
}

// A further question costs what it is long, and a further record what its context is.
TEST(PromptSharing, WhatIsSharedIsEncodedOnce) {
  const auto text = Text::Load(kShippedModel);
  PromptEncoder encoder(text, false);
  std::mt19937 random(6);
  const std::string instruction = RandomWords(random, 5000);
  for (const size_t bytes : {300u, 800u, 20000u}) {
    const std::string context = RandomWords(random, bytes);
    for (int i = 0; i < 4; ++i) {
      const std::string question = " " + RandomWords(random, 60);
      const std::vector<PromptPart> parts = {{instruction, true, PromptLevel::kShared},
                                             {"<|im_end|>\n", false, PromptLevel::kShared},
                                             {context, true, PromptLevel::kRecord},
                                             {"\n\nQuestion:", true, PromptLevel::kRecord},
                                             {question, true, PromptLevel::kQuestion}};
      const std::int64_t before = encoder.encoded_bytes();
      encoder.Encode(parts);
      const std::int64_t encoded = encoder.encoded_bytes() - before;
      const auto own = static_cast<std::int64_t>(question.size());
      const std::int64_t first = static_cast<std::int64_t>(context.size()) +
                                 (bytes == 300u ? 5000 : 0);  // the first record's instruction
      EXPECT_LE(encoded, own + 150 + (i == 0 ? first + 250 : 0)) << bytes << " bytes, " << i;
    }
  }
}

// The segments of sibling questions are the same, so that they are shared.
TEST(PromptSharing, SiblingsHaveTheSameContextSegment) {
  const auto text = Text::Load((kTokenizers / "byte_level_bpe.json").string());
  PromptEncoder encoder(text, false);
  std::mt19937 random(5);
  const std::string context = RandomWords(random, 2000);
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
