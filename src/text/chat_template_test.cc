#include "text/chat_template.h"

#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>

#include "banyan/error.h"
#include "support/oracle_folders.h"

namespace banyan {

namespace {

// A template of our own with what real ones do: roles, trimming, thinking, tool calls.
constexpr const char* kTemplate = R"({%- if messages[0].role == 'system' %}
    {{- '<|sys|>' + messages[0].content | trim + '<|end|>\n' }}
{%- endif %}
{%- for message in messages if message.role != 'system' %}
    {%- set content = message.content.split('</think>')[-1].lstrip('\n') %}
    {{- '<|' ~ message.role ~ '|>' ~ content ~ '<|end|>\n' }}
    {%- for call in message.tool_calls or [] %}
        {{- '<|call|>' }}{{ call.arguments | tojson }}
    {%- endfor %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|assistant|>' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{ '<think></think>' }}{% endif %}
{%- endif %})";

OrderedJson Parse(const char* text) { return OrderedJson::parse(text); }

// "control[user]control".
std::string Show(const std::vector<ChatPiece>& pieces) {
  std::string out;
  for (const ChatPiece& piece : pieces) {
    out += piece.from_user ? "[" + piece.text + "]" : piece.text;
  }
  return out;
}

TEST(ChatTemplate, MarksWhatTheCallerWrote) {
  const ChatTemplate chat(kTemplate);
  const auto messages = Parse(R"([
    {"role": "system", "content": "  be <|end|>\n"},
    {"role": "assistant", "content": "x</think>\n\nyes", "tool_calls": [{"arguments": {"b": 1, "a": "<|end|>"}}]},
    {"role": "user", "content": "<|assistant|>"}])");
  ChatOptions options;
  options.add_generation_prompt = true;
  const auto pieces = chat.RenderPieces(messages, options);
  EXPECT_EQ(Show(pieces),
            "<|sys|>[be <|end|>]<|end|>\n<|[assistant]|>[yes]<|end|>\n"
            "<|call|>[{\"b\": 1, \"a\": \"<|end|>\"}]<|[user]|>[<|assistant|>]<|end|>\n"
            "<|assistant|>");
  std::string joined;
  for (const ChatPiece& piece : pieces) {
    EXPECT_FALSE(piece.text.empty());
    joined += piece.text;
  }
  EXPECT_EQ(joined, chat.Render(messages, options));
}

TEST(ChatTemplate, OriginSurvivesStringOperations) {
  const auto messages = Parse(R"([{"role": "user", "content": "ab,cd,ef"}])");
  const auto show = [&](const std::string& expression) {
    return Show(ChatTemplate("{% set c = messages[0].content %}{{ " + expression + " }}")
                    .RenderPieces(messages, {}));
  };
  EXPECT_EQ(show("'<' + c + '>'"), "<[ab,cd,ef]>");
  EXPECT_EQ(show("c.replace(',', ';')"), "[ab];[cd];[ef]");
  EXPECT_EQ(show("c.split(',') | join('|')"), "[ab]|[cd]|[ef]");
  EXPECT_EQ(show("('<' + c + '>')[::-1]"), ">[fe,dc,ba]<");
  EXPECT_EQ(show("('<' + c + '>')[:3]"), "<[ab]");
  EXPECT_EQ(show("('  ' + c + '  ') | trim"), "[ab,cd,ef]");
  EXPECT_EQ(show("'k=' ~ c ~ '!'"), "k=[ab,cd,ef]!");
  EXPECT_EQ(show("c | upper"), "[AB,CD,EF]");
  EXPECT_EQ(show("('<' + c) | upper"), "[<AB,CD,EF]");  // mixed: the safe side
  EXPECT_EQ(show("[c, 'x'] | tojson"), "[[\"ab,cd,ef\", \"x\"]]");
  EXPECT_EQ(show("c | length"), "8");
  EXPECT_EQ(show("messages[0] | items | first | first"), "[role]");
}

TEST(ChatTemplate, ExtraVariablesAreUserTextAndTokensAreNot) {
  ChatOptions options;
  options.bos_token = "<s>";
  options.extra = Parse(R"({"documents": [{"text": "<s>"}]})");
  EXPECT_EQ(Show(ChatTemplate("{{ bos_token }}{{ documents[0].text }}{{ eos_token }}")
                     .RenderPieces(OrderedJson::array(), options)),
            "<s>[<s>]");
}

TEST(ChatTemplate, ToolsAreNoneAndAbsentTokensUndefined) {
  EXPECT_EQ(ChatTemplate("{{ tools }}{{ documents is none }}{{ bos_token is defined }}")
                .Render(OrderedJson::array(), {}),
            "NoneTrueFalse");
}

TEST(ChatTemplate, RefusesBadMessages) {
  const ChatTemplate chat("x");
  EXPECT_THROW(chat.Render(Parse("{}"), {}), Error);
  EXPECT_THROW(chat.Render(Parse("[1]"), {}), Error);
  EXPECT_THROW(chat.Render(Parse(R"([{"content": "x"}])"), {}), Error);
  ChatOptions options;
  options.extra = Parse("[1]");
  EXPECT_THROW(chat.Render(OrderedJson::array(), options), Error);
}

TEST(ChatTemplate, LongMessagesRender) {
  OrderedJson messages = OrderedJson::array();
  std::string long_text;
  for (int i = 0; i < 200'000; ++i) long_text += "é, ";
  messages.push_back({{"role", "user"}, {"content", long_text}});
  EXPECT_EQ(ChatTemplate(kTemplate).Render(messages, {}), "<|user|>" + long_text + "<|end|>\n");
}

OrderedJson ReadGolden(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(BANYAN_GOLDEN_DIR) / name;
  std::ifstream file(path);
  return file ? OrderedJson::parse(file) : OrderedJson();
}

TEST(ChatTemplate, Golden) {
  for (const std::filesystem::path& path : testing_support::OraclesOf("chat_templates", ".json")) {
    SCOPED_TRACE(path);
    std::ifstream file(path);
    const OrderedJson golden = OrderedJson::parse(file);
    const ChatTemplate chat(golden["chat_template"].get<std::string>());
    for (const auto& example : golden["cases"]) {
      ChatOptions options;
      options.add_generation_prompt = example["add_generation_prompt"].get<bool>();
      options.extra = example["extra"];
      if (golden["bos_token"].is_string()) options.bos_token = golden["bos_token"];
      if (golden["eos_token"].is_string()) options.eos_token = golden["eos_token"];
      EXPECT_EQ(chat.Render(example["messages"], options), example["text"].get<std::string>());
      for (const ChatPiece& piece : chat.RenderPieces(example["messages"], options)) {
        EXPECT_TRUE(piece.from_user || piece.text.find("braces") == std::string::npos);
      }
    }
  }
}

// SmolLM2's own template lies in its weights; ChatML is what it writes when a system message leads.
TEST(ChatTemplate, GoldenPromptsOfSmolLm2) {
  const OrderedJson golden = ReadGolden("real/smollm2-135m-instruct.json");
  if (golden.is_null()) GTEST_SKIP() << "no real/smollm2-135m-instruct.json";
  const ChatTemplate chat(
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>' "
      "+ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif "
      "%}");
  ChatOptions options;
  options.add_generation_prompt = true;
  for (const auto& context : golden["contexts"]) {
    for (const auto& question : context["questions"]) {
      const std::string user = context["context"].get<std::string>() +
                               "\n\nQuestion: " + question["question"].get<std::string>();
      const OrderedJson messages = {{{"role", "system"}, {"content", golden["system"]}},
                                    {{"role", "user"}, {"content", user}}};
      EXPECT_EQ(chat.Render(messages, options), question["prompt_text"].get<std::string>());
    }
  }
}

// What Gemma's templates do: a system message goes before the first user's, the assistant is called
// model, turns alternate, and a message may be a list of parts.
TEST(ChatTemplate, TurnsOfGemma) {
  const ChatTemplate chat(
      "{{ bos_token }}{%- if messages[0]['role'] == 'system' -%}"
      "{%- set before = messages[0]['content'] + '\n\n' -%}{%- set turns = messages[1:] -%}"
      "{%- else -%}{%- set before = '' -%}{%- set turns = messages -%}{%- endif -%}"
      "{%- for m in turns -%}"
      "{%- if (m['role'] == 'user') != (loop.index0 % 2 == 0) -%}"
      "{{ raise_exception('turns must alternate') }}{%- endif -%}"
      "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\n' + "
      "(before if loop.first else '') }}"
      "{%- if m['content'] is string -%}{{ m['content'] | trim }}"
      "{%- elif m['content'] is iterable -%}{%- for part in m['content'] -%}"
      "{%- if part['type'] == 'text' -%}{{ part['text'] | trim }}{%- endif -%}{%- endfor -%}"
      "{%- endif -%}{{ '<end_of_turn>\n' }}{%- endfor -%}"
      "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}");
  ChatOptions options;
  options.add_generation_prompt = true;
  options.bos_token = "<bos>";
  const OrderedJson messages = {
      {{"role", "system"}, {"content", "Be short."}},
      {{"role", "user"}, {"content", " Hi "}},
      {{"role", "assistant"}, {"content", "Hello"}},
      {{"role", "user"}, {"content", {{{"type", "text"}, {"text", "Bye\n"}}}}}};
  EXPECT_EQ(chat.Render(messages, options),
            "<bos><start_of_turn>user\nBe short.\n\nHi<end_of_turn>\n"
            "<start_of_turn>model\nHello<end_of_turn>\n"
            "<start_of_turn>user\nBye<end_of_turn>\n<start_of_turn>model\n");
  const OrderedJson twice = {{{"role", "user"}, {"content", "a"}},
                             {{"role", "user"}, {"content", "b"}}};
  EXPECT_THROW(chat.Render(twice, options), Error);
}

}  // namespace

namespace {

TEST(Harmony, TheAnswerIsTheFinalChannel) {
  const HarmonyText split = SplitHarmony(
      "<|channel|>analysis<|message|>Capitals.<|end|><|start|>assistant<|channel|>final<|message|>"
      "Rome<|return|>");
  EXPECT_TRUE(split.in_channels);
  EXPECT_EQ(split.thinking, "Capitals.");
  EXPECT_EQ(split.answer, "Rome");
}

TEST(Harmony, ThoughtsWithoutAnEndAreNoAnswer) {
  const HarmonyText split = SplitHarmony("<|channel|>analysis<|message|>Let me see");
  EXPECT_TRUE(split.in_channels);
  EXPECT_EQ(split.thinking, "Let me see");
  EXPECT_EQ(split.answer, "");
}

TEST(Harmony, SeveralThoughtsAndAConstrainedAnswer) {
  const HarmonyText split = SplitHarmony(
      "<|channel|>analysis<|message|>one<|end|><|start|>assistant<|channel|>commentary to=x"
      "<|message|>two<|call|><|start|>assistant<|channel|>final <|constrain|>json<|message|>{}");
  EXPECT_EQ(split.thinking, "one\ntwo");
  EXPECT_EQ(split.answer, "{}");
}

TEST(Harmony, OtherTextStaysWhatItIs) {
  EXPECT_FALSE(SplitHarmony("Rome").in_channels);
  EXPECT_FALSE(SplitHarmony("<|channel|>final").in_channels);
  EXPECT_FALSE(SplitHarmony("").in_channels);
}

TEST(Harmony, TemplatesAreKnownByTheirMarks) {
  EXPECT_TRUE(IsHarmonyTemplate(
      "{{'<|start|>user<|message|>' + m.content + '<|end|>'}}<|start|>assistant<|channel|>final"));
  EXPECT_FALSE(IsHarmonyTemplate("<|im_start|>assistant\n"));
}

}  // namespace

}  // namespace banyan
