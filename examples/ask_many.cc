// Several questions about one text, answered together: ask_many MODEL < text. The questions are the
// lines of the file named by the second argument.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "banyan/engine.h"
#include "banyan/error.h"

namespace {

// The chat that asks `question` about `context`, as tokens.
std::vector<banyan::TokenId> Prompt(const banyan::Text& text, const std::string& context,
                                    const std::string& question) {
  const nlohmann::ordered_json messages = {
      {{"role", "system"},
       {"content", "Answer the question from the text. Answer briefly, with words from the text."}},
      {{"role", "user"}, {"content", context + "\n\nQuestion: " + question}}};
  return text.EncodeChat(text.RenderChat(messages.dump(), /*add_generation_prompt=*/true, ""));
}

int Run(const std::string& model_name, const std::string& questions_file) {
  banyan::LoadOptions load;
  load.model = model_name;
  const std::shared_ptr<banyan::Model> model = banyan::Model::Load(load);
  if (!model->text()) throw banyan::Error(banyan::ErrorKind::kInput, "the model has no tokenizer");
  const std::string context(std::istreambuf_iterator<char>(std::cin), {});

  banyan::Engine engine(model, {});
  std::vector<std::string> questions;
  std::ifstream file(questions_file);
  for (std::string line; std::getline(file, line);) {
    banyan::PromptSegment prompt;  // equal beginnings are found and shared, whole cuts at a time
    prompt.tokens = Prompt(*model->text(), context, line);
    banyan::AnswerRequest answer;
    answer.tag = questions.size();
    answer.max_new = 32;
    answer.stop_tokens = model->end_tokens();
    prompt.answers.push_back(answer);
    engine.Submit(std::move(prompt));
    questions.push_back(line);
  }
  std::map<std::uint64_t, banyan::Answer> answers;
  while (engine.Step()) {
    for (banyan::Answer& answer : engine.TakeFinished()) answers[answer.tag] = std::move(answer);
  }
  for (const auto& [tag, answer] : answers) {
    const bool failed = answer.finish == banyan::FinishReason::kError;
    const std::string text = model->text()->Decode(answer.tokens, /*skip_special=*/true);
    std::printf("%s\t%s\n", questions[tag].c_str(), (failed ? answer.error : text).c_str());
  }
  const banyan::Receipt receipt = engine.receipt();
  std::fprintf(stderr, "%lld prompt tokens, %lld computed\n",
               static_cast<long long>(receipt.prompt_tokens),
               static_cast<long long>(receipt.prefilled_tokens));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ask_many MODEL QUESTIONS_FILE < TEXT\n");
    return 2;
  }
  try {
    return Run(argv[1], argv[2]);
  } catch (const banyan::Error& e) {
    std::fprintf(stderr, "ask_many: %s\n", e.what());
    return 2;
  }
}
