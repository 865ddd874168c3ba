// banyan rag: questions over documents, one from the command line or many as a job; and their
// index. Options and help are in rag_options.cc, the work is in the library.
#include "banyan/rag.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/retrieval.h"
#include "commands.h"
#include "job_session.h"
#include "rag_options.h"
#include "screen.h"

namespace banyan::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostDrawn = 500;  // rows on one page

void WritePage(const std::string& path, const std::vector<std::string>& rows) {
  std::ofstream file(path, std::ios::binary);
  file << RagTracePage(rows);
  file.flush();
  if (!file) {
    throw Error(ErrorKind::kIo, fmt::format("--trace: {}: cannot write the file", path));
  }
}

std::vector<std::string> FirstRows(const std::string& path) {
  std::vector<std::string> rows;
  std::ifstream file(path, std::ios::binary);
  for (std::string line; rows.size() < kMostDrawn && std::getline(file, line);) {
    rows.push_back(line);
  }
  return rows;
}

std::string NameOf(const Json& id) { return id.is_string() ? id.get<std::string>() : id.dump(); }

// "  notes/harbour.txt#2, characters 120 to 127: KT-4821"
std::string SourcesText(const Json& row) {
  std::string text;
  for (const Json& citation : row.at("citations")) {
    const bool from_file = citation.contains("source_begin");
    const char* begin = from_file ? "source_begin" : "begin";
    const char* end = from_file ? "source_end" : "end";
    text += "  " + NameOf(citation.at(from_file ? "source" : "document"));
    if (citation.contains(begin)) {
      text += fmt::format(", characters {} to {}", citation.at(begin).get<std::int64_t>(),
                          citation.at(end).get<std::int64_t>());
    }
    text += ": " + citation.at("text").get<std::string>() + "\n";
  }
  return text;
}

int AnswerOne(const RagCommand& command) {
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const std::string row =
      AnswerRag(model, command.run.engine, command.rag, command.job.inputs.front());
  if (!command.trace_page.empty()) WritePage(command.trace_page, {row});
  if (command.json) {
    Print(row + "\n");
    return 0;
  }
  const Json fields = Json::parse(row);
  const auto& answer = fields.at("answer");
  Print(answer.is_string() ? answer.get<std::string>() + "\n" : "(the documents do not say)\n");
  if (!command.quiet) Say(SourcesText(fields));
  return 0;
}

int RunRagCommand(RagCommand& command) {
  command.Resolve();
  if (command.IsQuestion()) return AnswerOne(command);
  const auto start = std::chrono::steady_clock::now();
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const double load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  JobSession session(command.job, command.quiet);
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { Say(text); };
  }
  JobReceipt receipt = RunRag(model, command.run.engine, command.rag, command.job);
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
  if (!command.trace_page.empty()) WritePage(command.trace_page, FirstRows(command.job.output));
  return session.Finish(receipt, 0.0);
}

struct IndexCommand {
  std::vector<std::string> arguments;
  IndexOptions options;
  bool quiet = false;
};

int MakeIndex(IndexCommand& command) {
  std::string directory = kDefaultIndex;
  std::vector<std::string> inputs = command.arguments;
  if (inputs.size() > 1) {
    directory = inputs.front();
    inputs.erase(inputs.begin());
    if (std::filesystem::exists(directory) && !std::filesystem::is_directory(directory)) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{}: expected the index's folder first, then documents", directory));
    }
  }
  if (!command.quiet) {
    command.options.notice = [](const std::string& text) { SayLine(text); };
  }
  const IndexReceipt receipt = DocumentIndex::Build(directory, inputs, command.options);
  if (!command.quiet) {
    Say(fmt::format("{}: {} documents in {} passages, {} different words\n", directory,
                    receipt.documents, receipt.passages, receipt.words));
  }
  return receipt.left_out > 0 ? 1 : 0;
}

}  // namespace

Command AddRag(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "rag", "Answer questions from many documents, each read by itself, with who wrote what");
  auto options = std::make_shared<RagCommand>();
  options->AddTo(*command);
  command->require_subcommand(0, 1);
  CLI::App* index = command->add_subcommand("index", "Make an index of documents on disk");
  index->footer(fmt::format(R"(
  $ banyan rag index notes/             (the index is {0})
  $ banyan rag index IDX notes/*.txt    (the index is IDX)

Documents are texts in UTF-8, folders of them, or JSONL of {{"id","text","title"?}}. Long ones are divided into
passages. An index is replaced as a whole: whoever reads the old one meanwhile is not disturbed.)",
                            kDefaultIndex));
  auto making = std::make_shared<IndexCommand>();
  index
      ->add_option("arguments", making->arguments,
                   "A folder or file of documents; or the index's folder, then documents")
      ->required();
  index->add_option("--passage-words", making->options.passage_words, "Words of a passage, at most")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  index->add_flag("--quiet", making->quiet, "Nothing on stderr");
  return [=] { return index->parsed() ? MakeIndex(*making) : RunRagCommand(*options); };
}

}  // namespace banyan::app
