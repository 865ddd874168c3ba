// banyan rag: questions over documents, one from the command line or many as a job; rag search:
// the\npassages alone, without a model that answers. Options and help are in rag_options.cc.
#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/encoder.h"
#include "banyan/error.h"
#include "banyan/rag.h"
#include "banyan/retrieval.h"
#include "job/job_session.h"
#include "program.h"
#include "program/fresh_file.h"
#include "program/json_library.h"
#include "program/rag.h"
#include "rag/rag_index.h"
#include "rag/rag_options.h"
#include "shell/table_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr const char* kSearchHelp = R"(
  $ banyan rag search "ferry to the island"                  (of {0})
  $ banyan rag search questions.jsonl --index IDX > found.jsonl

A file (or - for stdin) is JSONL of {{"id"?,"question"}}; its rows come out in order with `passages`, best first. A line
that has no question is an error row, and the exit code is then 1.)";

struct SearchCommand {
  std::string what, index = kDefaultIndex, by = "auto", encoder;
  int top = 10;
  bool json = false, quiet = false;
  RunOptions run;
};

// An open index with the encoder that its signal needs.
class Searcher {
 public:
  explicit Searcher(SearchCommand& command) : top_(static_cast<size_t>(command.top)) {
    RagOptions rag;
    rag.index = index_ = DocumentIndex::Open(command.index);
    if (!command.quiet) SayChanges(*index_);
    if (command.by != "auto") {
      rag.candidates = NamedValue(command.by, "--by", CandidateNames());
    }
    const std::string name = command.encoder.empty() ? WantedEncoder(rag) : command.encoder;
    if (!name.empty()) encoder_ = LoadRetrievalModel(name, command.run, command.quiet);
    signal_ = rag.candidates.value_or(encoder_ ? Signal::kDense : Signal::kBm25);
    index_->Check(signal_, encoder_);
  }

  Json Find(const std::string& question) const {
    Query query{question, {}};
    if (signal_ != Signal::kBm25) {
      EmbedOptions parts;
      parts.sparse = signal_ == Signal::kSparse;
      const std::vector<TokenId> tokens = EncoderTokens(*encoder_.encoder, question);
      query.embedding = std::move(encoder_->Embed(std::span(&tokens, 1), parts).front());
    }
    Json passages = Json::array();
    for (const FoundPassage& found : index_->Search(signal_, query, top_)) {
      const Passage& passage = index_->at(found.passage);
      Json& entry = passages.emplace_back();
      entry["id"] = passage.id;
      entry["source"] = passage.source;
      entry["begin"] = passage.begin;
      entry["score"] = found.score;
      if (!passage.title.empty()) entry["title"] = passage.title;
      entry["text"] = passage.text;
    }
    return passages;
  }

 private:
  size_t top_;
  std::shared_ptr<const DocumentIndex> index_;
  NamedEncoder encoder_;
  Signal signal_ = Signal::kBm25;
};

// "notes/harbour.txt, from character 0 (1.204)", then the passage, a line each.
std::string PassagesText(const Json& passages) {
  std::string text;
  for (const Json& passage : passages) {
    text += fmt::format("{}, from character {} ({:.3f})\n", passage.at("source").get<std::string>(),
                        passage.at("begin").get<std::int64_t>(), passage.at("score").get<double>());
    std::string shown = passage.at("text").get<std::string>();
    for (char& c : shown) c = c == '\n' || c == '\r' || c == '\t' ? ' ' : c;
    text += "  " + shown + "\n";
  }
  return text.empty() ? "(no passage shares a word with it)\n" : text;
}

// The line's row, with its passages or its error.
Json RowOf(const Searcher& searcher, const std::string& line, const std::string& place) {
  Json row;
  Json read = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (read.is_object() && read.contains("id")) row["id"] = read["id"];
  const auto question = read.is_object() ? read.find("question") : read.end();
  if (!read.is_object() || question == read.end() || !question->is_string()) {
    row["error"] = {{"message", place + ": expected an object with \"question\", a text"}};
    return row;
  }
  row["question"] = *question;
  row["passages"] = searcher.Find(question->get<std::string>());
  return row;
}

int SearchAll(const SearchCommand& command, const Searcher& searcher) {
  std::ifstream file;
  const bool from_stdin = command.what == "-";
  if (!from_stdin) {
    file.open(command.what);
    if (!file) {
      throw Error(ErrorKind::kNotFound, fmt::format("{}: cannot read the file", command.what));
    }
  }
  std::istream& lines = from_stdin ? std::cin : file;
  const auto begin = Clock::now();
  std::int64_t number = 0, asked = 0, failed = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string place =
        fmt::format("{}, line {}", from_stdin ? "stdin" : command.what, number);
    const Json row = RowOf(searcher, line, place);
    ++asked;
    failed += row.contains("error") ? 1 : 0;
    Print(row.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  }
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (!command.quiet) {
    SayLine(fmt::format("{} question{} in {:.3f} s{}", asked, asked == 1 ? "" : "s", seconds,
                        failed > 0 ? fmt::format(", {} without a question", failed) : ""));
  }
  return failed > 0 ? 1 : 0;
}

int Search(SearchCommand& command) {
  const Searcher searcher(command);
  if (command.what == "-" || std::filesystem::is_regular_file(command.what)) {
    return SearchAll(command, searcher);
  }
  const Json passages = searcher.Find(command.what);
  if (command.json) {
    Print(Json{{"question", command.what}, {"passages", passages}}.dump(
              -1, ' ', false, Json::error_handler_t::replace) +
          "\n");
  } else {
    Print(PassagesText(passages));
  }
  return 0;
}

std::pair<CLI::App*, Command> AddRagSearch(CLI::App& rag) {
  CLI::App* search =
      rag.add_subcommand("search", "Show the passages of an index that a question finds");
  search->footer(fmt::format(fmt::runtime(kSearchHelp), kDefaultIndex));
  auto command = std::make_shared<SearchCommand>();
  search->add_option("question", command->what, "A question, or a JSONL file of them; -: stdin")
      ->required();
  search->add_option("--index", command->index, "The index's folder")->capture_default_str();
  search->add_option("--top", command->top, "Passages of a question, at most")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  search
      ->add_option("--by", command->by,
                   "What finds them: shared words (bm25), an encoder's vectors (dense, sparse); "
                   "auto: dense where the index has vectors")
      ->type_name("auto|bm25|dense|sparse")
      ->capture_default_str();
  search
      ->add_option("--encoder", command->encoder,
                   "The encoder of questions (default: the index's own)")
      ->type_name("MODEL");
  search
      ->add_option("--threads", command->run.load.threads,
                   "Number of threads; 0: all that the process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  search->add_flag("--json", command->json, "One question's passages as JSON");
  search->add_flag("--quiet", command->quiet, "Nothing on stderr");
  return {search, [command] { return Search(*command); }};
}

// banyan rag: questions over documents, one from the command line or many as a job; and their
// index. Options and help are in rag_options.cc, the work is in the library.

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

// "notes/harbour.txt, characters 120 to 127"
std::string PlaceText(const Json& citation) {
  const bool from_file = citation.contains("source_begin");
  const char* begin = from_file ? "source_begin" : "begin";
  const char* end = from_file ? "source_end" : "end";
  const std::string name = NameOf(citation.at(from_file ? "source" : "document"));
  if (!citation.contains(begin)) return name;
  return fmt::format("{}, characters {} to {}", name, citation.at(begin).get<std::int64_t>(),
                     citation.at(end).get<std::int64_t>());
}

// "  notes/harbour.txt, characters 120 to 127: KT-4821"
std::string SourcesText(const Json& row) {
  std::string text;
  for (const Json& citation : row.at("citations")) {
    text += "  " + PlaceText(citation) + ": " + citation.at("text").get<std::string>() + "\n";
  }
  return text;
}

std::string DroppedText(const Json& row) {
  if (!row.contains("dropped")) return {};
  const size_t count = row.at("dropped").size();
  return fmt::format("  {} passage{} not read: {}\n", count, count == 1 ? "" : "s",
                     row.at("dropped_reason").get<std::string>());
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

// "  or KT-4822 (0.41): notes/b.txt, characters 41 to 48"
std::string AlternativesText(const Json& row) {
  std::string text;
  if (!row.contains("alternatives")) return text;
  for (const Json& other : row.at("alternatives")) {
    text += "  or " + other.at("answer").get<std::string>();
    if (other.contains("confidence")) {
      text += fmt::format(" ({:.2f})", other.at("confidence").get<double>());
    }
    const char* before = ": ";
    for (const Json& citation : other.at("citations")) {
      text += std::exchange(before, "; ") + PlaceText(citation);
    }
    text += "\n";
  }
  return text;
}

int AnswerOne(const RagCommand& command) {
  if (command.rag.index && !command.quiet) SayChanges(*command.rag.index);
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
  Print(answer.is_string() ? answer.get<std::string>() + "\n"
                           : "(" + fields.at("reason").get<std::string>() + ")\n");
  if (!command.quiet) {
    Print(SourcesText(fields) + AlternativesText(fields) + VerifiedText(fields));
    Say(StaleText(fields) + DroppedText(fields));
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
  JobSession session(command.job, command.quiet, command.input.verbose);
  if (command.run.explain) {
    command.job.explain = [](const std::string& text) { Say(text); };
  }
  JobReceipt receipt = RunRag(model, command.run.engine, command.rag, command.job);
  receipt.load_seconds = load_seconds;
  receipt.model = command.run.load.model;
  receipt.adapter = command.run.load.adapter;
  if (!command.trace_page.empty() && receipt.MayWrite(command.trace_page)) {
    WritePage(command, FirstRows(command.job.output));
  }
  return session.Finish(receipt);
}

}  // namespace

Command AddRag(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "rag", "Answer questions from many documents, with the source of every word");
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
