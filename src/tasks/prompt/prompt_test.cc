// Prompt texts: templates with variables, chat templates, levels.
#include "tasks/prompt/prompt.h"

#include <gtest/gtest.h>

#include "support/error_message.h"
#include "support/temp_directory.h"

namespace banyan {
namespace {

using testing_support::ErrorMessage;
using testing_support::TempDirectory;

const std::string kTokenizer = BANYAN_SOURCE_DIR "/tests/data/tokenizers/byte_level_bpe.json";

std::string Render(const PromptWriter& writer, const std::string& context,
                   const std::string& question, const std::string& instruction = "Do it.") {
  std::string all;
  PromptLevel level = PromptLevel::kShared;
  const auto parts = writer.Write([&](const std::string& name) -> std::optional<PromptVariable> {
    if (name == "context") return PromptVariable{context, PromptLevel::kRecord};
    if (name == "question") return PromptVariable{question, PromptLevel::kQuestion};
    if (name == "instruction") return PromptVariable{instruction, PromptLevel::kShared};
    if (name == "title") return PromptVariable{"T", PromptLevel::kRecord};
    return std::nullopt;
  });
  for (const PromptPart& part : parts) {
    EXPECT_FALSE(part.text.empty());
    EXPECT_GE(part.level, level);
    if (part.level > level) all += part.level == PromptLevel::kRecord ? "[R]" : "[Q]";
    level = part.level;
    all += part.text;
  }
  return all;
}

std::shared_ptr<const Text> WithTemplate(const TempDirectory& folder, const std::string& jinja) {
  std::filesystem::copy(kTokenizer, folder.path() / "tokenizer.json",
                        std::filesystem::copy_options::overwrite_existing);
  folder.Write("chat_template.jinja", jinja);
  return Text::Load(folder.path().string());
}

TEST(PromptTemplate, Pieces) {
  const auto pieces = ParsePromptTemplate("a{b}{{c}}{d_1}");
  ASSERT_EQ(pieces.size(), 4u);
  EXPECT_EQ(pieces[0].text, "a");
  EXPECT_TRUE(pieces[1].is_variable);
  EXPECT_EQ(pieces[2].text, "{c}");
  EXPECT_EQ(pieces[3].text, "d_1");
  EXPECT_TRUE(ParsePromptTemplate("").empty());
  for (const char* bad : {"{", "}", "{a", "a}", "{}", "{a b}", "{a\n}"}) {
    EXPECT_NE(ErrorMessage(ErrorKind::kUsage, [&] { ParsePromptTemplate(bad); }), "") << bad;
  }
}

TEST(PromptWriter, WithoutChatTemplate) {
  const auto text = Text::Load(kTokenizer);
  AskOptions options;
  EXPECT_EQ(Render(PromptWriter(text, options), "C.", "Q?"),
            "Do it.\n\n[R]C.\n\nQuestion:[Q] Q?\nAnswer:");
  EXPECT_EQ(Render(PromptWriter(text, options), "C.", "Q?", ""),
            "[R]C.\n\nQuestion:[Q] Q?\nAnswer:");
  options.few_shot = "Examples.\n\n";
  EXPECT_EQ(Render(PromptWriter(text, options), "C", "Q"),
            "Do it.\n\nExamples.\n\n[R]C\n\nQuestion:[Q] Q\nAnswer:");
  options.few_shot = "{\"context\":\"c\",\"question\":\"q\",\"answer\":\"a\"}\n";
  EXPECT_EQ(Render(PromptWriter(text, options), "C", "Q"),
            "Do it.\n\nc\n\nQuestion: q\nAnswer: a\n\n[R]C\n\nQuestion:[Q] Q\nAnswer:");
  options.few_shot.clear();
  // A question before the context: nothing of the record is shared.
  options.prompt_template = "{question} {title} {context}";
  EXPECT_EQ(Render(PromptWriter(text, options), "C", "Q"), "[Q]Q T C");
  options.chat = ChatUse::kOn;
  EXPECT_NE(ErrorMessage(ErrorKind::kUnsupported, [&] { PromptWriter(text, options); }), "");
}

TEST(PromptWriter, ChatTemplates) {
  const TempDirectory folder;
  const auto chatml =
      WithTemplate(folder,
                   "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
                   "{% if add_generation_prompt %}<assistant>{% if not enable_thinking %}<no>{% "
                   "endif %}{% endif %}");
  AskOptions options;
  EXPECT_EQ(Render(PromptWriter(chatml, options), " C ", "Q"),
            "<system>Do it.</><user>[R] C \n\nQuestion:[Q] Q</><assistant><no>");
  options.thinking = true;
  EXPECT_EQ(Render(PromptWriter(chatml, options), "C", "Q", ""),
            "<user>[R]C\n\nQuestion:[Q] Q</><assistant>");
  options.few_shot = "Some.";
  EXPECT_EQ(Render(PromptWriter(chatml, options), "C", "Q"),
            "<system>Do it.\n\nSome.</><user>[R]C\n\nQuestion:[Q] Q</><assistant>");
  options.few_shot = "{\"question\":\"q\",\"answer\":\"a\"}";
  EXPECT_EQ(Render(PromptWriter(chatml, options), "C", "Q"),
            "<system>Do it.</><user>Question: q</><assistant>a</><user>[R]C\n\nQuestion:[Q] Q</>"
            "<assistant>");
}

TEST(PromptWriter, TemplatesThatTrimOrRefuse) {
  const TempDirectory folder;
  AskOptions options;
  options.thinking = true;
  const auto trims = WithTemplate(
      folder, "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</>{% endfor %}");
  EXPECT_EQ(Render(PromptWriter(trims, options), " \n C ", "Q \n", " Do. "),
            "<system>Do.</><user>[R]C \n\nQuestion:[Q] Q</>");
  EXPECT_EQ(Render(PromptWriter(trims, options), " \n", "Q"),
            "<system>Do it.</><user>[R]Question:[Q] Q</>");
  const auto refuses = WithTemplate(
      folder,
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}"
      "{% endif %}<{{ m.role }}>{{ m.content }}</>{% endfor %}");
  EXPECT_EQ(Render(PromptWriter(refuses, options), "C", "Q"),
            "<user>Do it.\n\n[R]C\n\nQuestion:[Q] Q</>");
  const auto hides = WithTemplate(folder, "nothing of the messages");
  EXPECT_NE(ErrorMessage(ErrorKind::kUnsupported, [&] { PromptWriter(hides, options); }), "");
}

}  // namespace
}  // namespace banyan
