// banyan rag index: files and folders → an index on disk, with an encoder's vectors if one is
// given.
#include "rag/rag_index.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/error.h"
#include "banyan/retrieval.h"
#include "program/message_text.h"
#include "program/rag.h"
#include "rag/rag_options.h"
#include "terminal/terminal.h"

namespace banyan::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexHelp = R"(
  $ banyan rag index notes/             (the index is {0})
  $ banyan rag index IDX notes/*.txt    (the index is IDX)
  $ banyan rag index notes/ --encoder all-minilm-l6-v2
  $ banyan rag index                    (looks again at all that {0} was made of)

Documents are texts in UTF-8, Markdown, HTML and PDF, folders of them, or JSONL of {{"id","text","title"?}}. Long
ones are divided into passages. What cannot be read is left out, and said; the exit code is then 1. So are links in a
folder that lead out of it: name such files themselves.

An index that is there is brought up to date: what is new in the files and folders is added, what changed is
replaced, what is gone from them is dropped; documents of others stay. It keeps its encoder and options unless others
are given. Whoever reads the old index meanwhile is not disturbed, and a command that is killed leaves it as it was.)";

struct IndexCommand {
  std::vector<std::string> arguments;
  IndexOptions options;
  RunOptions run;
  std::string encoder, vectors;  // empty: as the index has it
  bool kept_encoder = false;     // it is the one that the index has
  bool anew = false, quiet = false;
};

// "  1200 of 5000 passages, 85/s", at most every second.
class PassagesLine {
 public:
  void Show(std::int64_t done, std::int64_t all) {
    using Seconds = std::chrono::duration<double>;
    const double seconds = Seconds(std::chrono::steady_clock::now() - start_).count();
    if (done < all && seconds < next_) return;
    next_ = seconds + 1.0;
    const std::string text = fmt::format("vectors of {} of {} passages, {:.0f}/s", done, all,
                                         static_cast<double>(done) / std::max(seconds, 1e-3));
    if (::isatty(STDERR_FILENO) == 1) {
      Say(fmt::format("\r{}{}", text, done == all ? "\n" : ""));
    } else if (done == all) {
      SayLine(text);
    }
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  double next_ = 1.0;
};

bool IsIndex(const std::string& folder) {
  std::error_code none;
  return fs::exists(fs::path(folder) / "index.banyan", none);
}

// The index's folder, taken from the arguments where there are several, or where it is alone.
std::string TakeFolder(std::vector<std::string>& arguments) {
  if (arguments.empty()) return kDefaultIndex;
  if (arguments.size() == 1 && !IsIndex(arguments.front())) return kDefaultIndex;
  const std::string folder = arguments.front();
  arguments.erase(arguments.begin());
  std::error_code none;
  if (!fs::exists(folder)) return folder;
  const bool empty = fs::is_directory(folder) && fs::is_empty(folder, none);
  if (IsIndex(folder) || empty) return folder;
  throw Error(
      ErrorKind::kUsage,
      fmt::format("{}: expected the index's folder first, then documents; this is {}", folder,
                  fs::is_directory(folder) ? "a folder with other files" : "a file"));
}

// "3 new, 1 changed, 2 gone, 118 kept": what there is of it.
std::string ChangesText(const IndexReceipt& receipt) {
  std::string text;
  for (const auto& [count, what] : {std::pair(receipt.new_documents, "new"),
                                    {receipt.changed_documents, "changed"},
                                    {receipt.gone_documents, "gone"},
                                    {receipt.kept_documents, "kept"}}) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, what);
  }
  return text;
}

// Options that were not given are those of the index.
void TakeSettings(const std::string& folder, IndexCommand& command,
                  std::vector<std::string>& inputs) {
  std::optional<IndexSettings> before;
  try {
    before = DocumentIndex::SettingsOf(folder);
  } catch (const Error& e) {
    if (command.anew) return;
    throw Error(e.kind(), fmt::format("{} (--new forgets what it had)", e.what()));
  }
  if (inputs.empty() && before) inputs = before->inputs;
  if (!before || command.anew) return;
  command.kept_encoder = command.encoder.empty();
  if (command.kept_encoder) command.encoder = before->encoder;
  if (command.vectors.empty() && !command.encoder.empty() && command.encoder != "none") {
    command.vectors = VectorSearchName(before->vectors);
  }
}

std::shared_ptr<Encoder> LoadIndexEncoder(RunOptions& run, const IndexCommand& command) {
  try {
    return run.LoadEncoder(command.quiet);
  } catch (const Error& e) {
    if (!command.kept_encoder) throw;
    throw Error(e.kind(),
                fmt::format("the index's encoder '{}' cannot be loaded ({}); give it with "
                            "--encoder, or --encoder none for words alone",
                            command.encoder, e.what()));
  }
}

// What was left out is listed at the end, whatever the end is.
struct LastWords {
  ~LastWords() {
    for (const std::string& text : lines) SayLine(text);
  }
  std::vector<std::string> lines;
};

int MakeIndex(IndexCommand& command) {
  std::vector<std::string> inputs = command.arguments;
  const std::string folder = TakeFolder(inputs);
  IndexOptions& options = command.options;
  TakeSettings(folder, command, inputs);
  if (inputs.empty()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("rag index: expected files or folders; {} is no index that could be "
                            "looked at again",
                            folder));
  }
  if (command.encoder == "none") command.encoder.clear();
  options.vectors = ParseVectorSearch(command.vectors.empty() ? "exact" : command.vectors);
  if (command.encoder.empty() && options.vectors != VectorSearch::kExact) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("--vectors {}: expected an --encoder, which makes them", command.vectors));
  }
  LastWords left_out;
  if (!command.quiet) {
    options.notice = [&](const std::string& text) { left_out.lines.push_back(text); };
  }
  auto line = std::make_shared<PassagesLine>();
  if (!command.encoder.empty()) {
    RunOptions alone = command.run;  // no decoder is beside it: it may have the device
    alone.load = RetrievalLoadOptions(command.encoder, command.run.load);
    alone.load.device = command.run.load.device;
    options.encoder = NameEncoder(LoadIndexEncoder(alone, command), command.encoder);
    if (!command.quiet) {
      *line = PassagesLine();
      options.progress = [line](std::int64_t done, std::int64_t all) { line->Show(done, all); };
    }
  }
  const IndexReceipt receipt = command.anew ? DocumentIndex::Build(folder, inputs, options)
                                            : DocumentIndex::Update(folder, inputs, options);
  if (!command.quiet) {
    std::string text = fmt::format(
        "{}: {}: {} in {}, {}", folder, ChangesText(receipt), Plural(receipt.documents, "document"),
        Plural(receipt.passages, "passage"), Plural(receipt.words, "different word"));
    if (options.encoder) {
      text += fmt::format(", {} vectors of {} ({} from before)", receipt.embedded + receipt.kept,
                          options.encoder->dimensions(), receipt.kept);
    }
    Say(text + "\n");
  }
  return receipt.left_out > 0 ? 1 : 0;
}

}  // namespace

std::pair<CLI::App*, Command> AddRagIndex(CLI::App& rag) {
  CLI::App* index = rag.add_subcommand("index", "Make an index of documents on disk");
  index->footer(fmt::format(fmt::runtime(kIndexHelp), kDefaultIndex));
  auto command = std::make_shared<IndexCommand>();
  index->add_option(
      "arguments", command->arguments,
      "A folder or file of documents; or the index's folder, then documents; nothing: "
      "what the index was made of");
  index
      ->add_option("--passage-words", command->options.passage_words,
                   "Words of a passage, at most (default: the index's own, else 200)")
      ->check(CLI::PositiveNumber);
  index
      ->add_option("--encoder", command->encoder,
                   "Encoder (BERT, MiniLM, XLM-R, BGE-M3) whose vectors are kept beside the "
                   "words (default: the index's own); none: words alone")
      ->type_name("MODEL");
  index
      ->add_option("--vectors", command->vectors,
                   "How the nearest are found: exact; or by libfaiss ivf, hnsw "
                   "(default: as before, else exact)")
      ->type_name("exact|ivf|hnsw");
  index->add_flag("--new", command->anew,
                  "Forget what the index had; not even a damaged one stops it");
  index->add_option("--device", command->run.load.device, "What computes vectors")
      ->type_name("cpu|reference|cuda")
      ->capture_default_str();
  index
      ->add_option("--threads", command->run.load.threads,
                   "Number of threads; 0: all that the process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  index->add_flag("--quiet", command->quiet, "Nothing on stderr");
  return {index, [command] { return MakeIndex(*command); }};
}

}  // namespace banyan::app
