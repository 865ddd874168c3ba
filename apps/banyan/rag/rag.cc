// banyan rag: questions over documents, one from the command line or many as a job; and their
// index. Options and help are in rag_options.cc, the work is in the library.
#include "banyan/rag.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "commands.h"
#include "job/job_session.h"
#include "program/fresh_file.h"
#include "rag/rag_index.h"
#include "rag/rag_options.h"
#include "rag/rag_search.h"
#include "terminal/screen.h"

namespace banyan::app {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostDrawn = 500;  // rows on one page

void WritePage(const RagCommand& command, const std::vector<std::string>& rows) {
  WriteFreshFile(command.trace_page, "--trace", command.job.overwrite || command.job.resume,
                 RagTracePage(rows));
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

std::string DroppedText(const Json& row, double least) {
  if (!row.contains("dropped")) return {};
  const size_t count = row.at("dropped").size();
  return fmt::format("  {} passage{} below the relevance of {} not read\n", count,
                     count == 1 ? "" : "s", least);
}

std::string StaleText(const Json& row) {
  std::string text;
  if (!row.contains("stale")) return text;
  for (const Json& one : row.at("stale")) {
    text += fmt::format("  {} {} since it was indexed: run 'banyan rag index' again\n",
                        one.at("source").get<std::string>(),
                        one.at("state") == "gone" ? "is gone" : "has changed");
  }
  return text;
}

// "  without notes/a.txt: 7:45"
std::string VerifiedText(const Json& row) {
  std::string text;
  if (!row.contains("verified")) return text;
  for (const Json& one : row.at("verified").at("without")) {
    const Json& answer = one.at("answer");
    text += fmt::format("  without {}: {}\n", NameOf(one.at("document")),
                        one.at("changed") == false ? "the same answer"
                        : answer.is_null()         ? "no answer"
                                                   : answer.get<std::string>());
  }
  return text;
}

int AnswerOne(const RagCommand& command) {
  const std::shared_ptr<Model> model = command.run.LoadModel(command.quiet);
  const std::string row =
      AnswerRag(model, command.run.engine, command.rag, command.job.inputs.front());
  if (!command.trace_page.empty()) WritePage(command, {row});
  if (command.json) {
    Print(row + "\n");
    return 0;
  }
  const Json fields = Json::parse(row);
  const auto& answer = fields.at("answer");
  Print(answer.is_string() ? answer.get<std::string>() + "\n" : "(the text does not say)\n");
  if (!command.quiet) {
    Say(SourcesText(fields) + VerifiedText(fields) + StaleText(fields) +
        DroppedText(fields, command.rag.min_relevance));
  }
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
  if (!command.trace_page.empty() && receipt.MayWrite(command.trace_page)) {
    WritePage(command, FirstRows(command.job.output));
  }
  return session.Finish(receipt);
}

}  // namespace

Command AddRag(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "rag",
      "Answer questions from many documents, each read separately, with the source of every word");
  auto options = std::make_shared<RagCommand>();
  options->AddTo(*command);
  command->require_subcommand(0, 1);
  const auto [index, make_index] = AddRagIndex(*command);
  const auto [search, find] = AddRagSearch(*command);
  return [options, index = index, make_index = make_index, search = search, find = find] {
    if (index->parsed()) return make_index();
    if (search->parsed()) return find();
    return RunRagCommand(*options);
  };
}

}  // namespace banyan::app
