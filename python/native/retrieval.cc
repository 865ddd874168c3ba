// Encoders (texts in, vectors out, as `banyan embed` gives them) and indexes of documents.
#include <algorithm>
#include <optional>

#include "banyan/retrieval.h"
#include "bound.h"
#include "options.h"

namespace banyan::python {
namespace {

// Texts as tokens, longer ones cut as `banyan embed` cuts them.
struct TokenTexts {
  std::vector<std::vector<TokenId>> tokens;  // of texts without problem
  std::vector<bool> truncated;               // [texts]
  std::vector<std::pair<std::string, std::string>>
      problems;  // [texts] kind and message; empty: none
};

TokenTexts Tokenise(const Encoder& encoder, const std::vector<std::string>& texts, int max_tokens,
                    Interruption& interruption) {
  if (!encoder.text()) {
    throw Error(ErrorKind::kUnsupported, "embed: the model's files have no tokenizer");
  }
  TokenTexts result;
  for (const std::string& text : texts) {
    interruption.Check();
    bool truncated = false;
    std::vector<TokenId> tokens = EncoderTokens(encoder, text, max_tokens, &truncated);
    result.truncated.push_back(truncated);
    result.problems.emplace_back();
    try {
      encoder.Check(tokens);
      result.tokens.push_back(std::move(tokens));
    } catch (const Error& e) {
      result.problems.back() = {ErrorKindName(e.kind()), e.what()};
    }
  }
  return result;
}

// Some passes at a time, so that Ctrl-C, or what ends the work otherwise, is heard between them.
class Embedder {
 public:
  Embedder(Encoder& encoder, const EmbedOptions& options, Interruption& interruption)
      : encoder_(encoder), options_(options), interruption_(interruption) {}

  std::vector<Embedding> Embed(const std::vector<std::vector<TokenId>>& texts) {
    constexpr size_t kManyTokens = 1 << 12;
    std::vector<Embedding> all;
    for (size_t begin = 0; begin < texts.size();) {
      size_t end = begin;
      for (size_t tokens = 0; end < texts.size() && (end == begin || tokens < kManyTokens); ++end) {
        tokens += texts[end].size();
      }
      const std::vector<std::vector<TokenId>> some(
          texts.begin() + static_cast<std::ptrdiff_t>(begin),
          texts.begin() + static_cast<std::ptrdiff_t>(end));
      for (Embedding& embedding : encoder_.Embed(some, options_)) {
        all.push_back(std::move(embedding));
      }
      begin = end;
      interruption_.Check();
    }
    return all;
  }

 private:
  Encoder& encoder_;
  const EmbedOptions options_;
  Interruption& interruption_;
};

nb::dict EmbedTexts(BoundEncoder& self, const std::vector<std::string>& texts, int max_tokens,
                    bool sparse, bool multi_vector, int batch_rows, nb::object look) {
  const std::shared_ptr<Encoder> encoder = self.encoder.get("encoder");
  if (!encoder->embeds()) {
    throw Error(ErrorKind::kUnsupported, "embed: the model is a reranker: it has no vectors");
  }
  TokenTexts tokens;
  std::vector<Embedding> embeddings;
  std::vector<float> dense;
  const auto width = static_cast<size_t>(encoder->dimensions());
  Interruption interruption(std::move(look));
  {
    const nb::gil_scoped_release unlocked;
    tokens = Tokenise(*encoder, texts, max_tokens, interruption);
    embeddings =
        Embedder(*encoder, {sparse, multi_vector, batch_rows}, interruption).Embed(tokens.tokens);
    dense.resize(texts.size() * width);
    size_t next = 0;
    for (size_t i = 0; i < texts.size(); ++i) {
      if (!tokens.problems[i].first.empty()) continue;  // a row of zeros
      std::ranges::copy(embeddings[next++].dense,
                        dense.begin() + static_cast<std::ptrdiff_t>(i * width));
    }
  }
  nb::list truncated, problems, sparse_rows, multi_vector_rows;
  size_t next = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    truncated.append(static_cast<bool>(tokens.truncated[i]));
    const bool bad = !tokens.problems[i].first.empty();
    problems.append(
        bad ? nb::object(nb::make_tuple(tokens.problems[i].first, tokens.problems[i].second))
            : nb::none());
    Embedding none;
    Embedding& embedding = bad ? none : embeddings[next++];
    if (sparse && encoder->has_sparse()) {
      nb::dict weights;
      for (const auto& [token, weight] : embedding.sparse) weights[nb::int_(token)] = weight;
      sparse_rows.append(weights);
    }
    if (multi_vector && encoder->has_colbert()) {
      const size_t rows = embedding.colbert.size();
      const size_t columns = rows == 0 ? 0 : embedding.colbert[0].size();
      std::vector<float> flat;
      flat.reserve(rows * columns);
      for (const std::vector<float>& row : embedding.colbert) {
        flat.insert(flat.end(), row.begin(), row.end());
      }
      multi_vector_rows.append(ArrayOf(std::move(flat), {rows, columns}));
    }
  }
  nb::dict result;
  result["dense"] = ArrayOf(std::move(dense), {texts.size(), width});
  result["truncated"] = truncated;
  result["problems"] = problems;
  result["sparse"] = sparse_rows;
  result["multi_vector"] = multi_vector_rows;
  return result;
}

nb::list Search(const BoundIndex& self, const std::string& query, size_t count,
                BoundEncoder* encoder) {
  const std::shared_ptr<Encoder> loaded = encoder ? encoder->encoder.get("encoder") : nullptr;
  std::vector<FoundPassage> found;
  {
    const nb::gil_scoped_release unlocked;
    if (loaded) {
      self.index->Check(Signal::kDense, NameEncoder(loaded, encoder->name));
      const std::vector<std::vector<TokenId>> texts = {EncoderTokens(*loaded, query)};
      found = self.index->Search(Signal::kDense, {query, loaded->Embed(texts).front()}, count);
    } else {
      found = self.index->Search(query, count);
    }
  }
  nb::list list;
  for (const FoundPassage& one : found) {
    const Passage& passage = self.index->at(one.passage);
    nb::dict fields;
    fields["id"] = passage.id;
    fields["source"] = passage.source;
    fields["title"] = passage.title;
    fields["text"] = passage.text;
    fields["begin"] = passage.begin;
    fields["score"] = one.score;
    list.append(fields);
  }
  return list;
}

nb::list PathsOf(const std::vector<std::string>& paths) {
  nb::list list;
  for (const std::string& path : paths) {
    list.append(nb::steal(
        PyUnicode_DecodeFSDefaultAndSize(path.data(), static_cast<Py_ssize_t>(path.size()))));
  }
  return list;
}

// (changed, gone, added, what a person should know of them)
nb::tuple Changes(const BoundIndex& self) {
  IndexChanges changes;
  {
    const nb::gil_scoped_release unlocked;
    changes = self.index->Changes();
  }
  return nb::make_tuple(PathsOf(changes.changed), PathsOf(changes.gone), PathsOf(changes.added),
                        changes.Text());
}

// (inputs, words of a passage at most, encoder or "", search of vectors)
nb::tuple SettingsOf(const std::string& directory) {
  const std::optional<IndexSettings> settings = DocumentIndex::SettingsOf(directory);
  if (!settings) {
    throw Error(ErrorKind::kNotFound, directory + ": no index there");
  }
  return nb::make_tuple(PathsOf(settings->inputs), settings->passage_words, settings->encoder,
                        VectorSearchName(settings->vectors));
}

// What the index in the folder had is kept only where `updates`.
nb::dict Build(const std::string& directory, const std::vector<std::string>& inputs,
               int passage_words, BoundEncoder* encoder, const std::string& vectors,
               const nb::object& notice, const nb::object& progress, bool updates) {
  IndexOptions options;
  options.passage_words = passage_words;
  options.vectors = ParseVectorSearch(vectors);
  AtLeast("passage_words", passage_words, 1);
  if (encoder) {
    options.encoder = NameEncoder(encoder->encoder.get("encoder"), encoder->name);
  } else if (options.vectors != VectorSearch::kExact) {
    throw Error(ErrorKind::kUsage,
                "vectors='" + vectors + "': expected an encoder, which makes them");
  }
  if (!notice.is_none()) {
    options.notice = [&](const std::string& text) {
      const nb::gil_scoped_acquire gil;
      notice(text);
    };
  }
  Interruption interruption;
  options.progress = [&](std::int64_t done, std::int64_t all) {
    const bool interrupted = interruption.Pending();
    const nb::gil_scoped_acquire gil;
    if (interrupted) interruption.Raise();
    if (!progress.is_none()) progress(done, all);
  };
  IndexReceipt receipt;
  {
    const nb::gil_scoped_release unlocked;
    receipt = updates ? DocumentIndex::Update(directory, inputs, options)
                      : DocumentIndex::Build(directory, inputs, options);
  }
  nb::dict fields;
  fields["documents"] = receipt.documents;
  fields["passages"] = receipt.passages;
  fields["words"] = receipt.words;
  fields["left_out"] = receipt.left_out;
  fields["embedded"] = receipt.embedded;
  fields["kept"] = receipt.kept;
  return fields;
}

}  // namespace

void AddEncoder(nb::module_& module) {
  nb::class_<BoundEncoder>(module, "Encoder")
      .def(
          "__init__",
          [](BoundEncoder* self, const nb::dict& values, nb::object look) {
            LoadOptions options = ReadAll(values, LoadOptionsOf);
            Interruption interruption(std::move(look));
            options.progress = [&](std::int64_t, std::int64_t) { interruption.Check(); };
            const nb::gil_scoped_release unlocked;
            new (self) BoundEncoder(Encoder::Load(options), options.model);
          },
          nb::arg(), nb::arg().none())
      .def("close",
           [](BoundEncoder& self) {
             const nb::gil_scoped_release unlocked;
             self.encoder.Drop();
           })
      .def_prop_ro(
          "dimensions",
          [](const BoundEncoder& self) { return self.encoder.get("encoder")->dimensions(); })
      .def_prop_ro(
          "context_length",
          [](const BoundEncoder& self) { return self.encoder.get("encoder")->context_length(); })
      .def_prop_ro("reranks",
                   [](const BoundEncoder& self) { return self.encoder.get("encoder")->reranks(); })
      .def_prop_ro(
          "backend",
          [](const BoundEncoder& self) { return self.encoder.get("encoder")->backend_name(); })
      .def("embed", &EmbedTexts, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
           nb::arg().none());
}

// Indexes of documents, searched by words or by an encoder's vectors.

void AddRetrieval(nb::module_& module) {
  module.def("build_index", &Build, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
             nb::arg().none(), nb::arg().none(), nb::arg());
  module.def("index_settings", &SettingsOf);
  // The model that must be loaded for questions with these options; empty: none.
  module.def("wanted_encoder",
             [](const nb::dict& task) { return WantedEncoder(ReadAll(task, RagOptionsOf)); });
  nb::class_<BoundIndex>(module, "Index")
      .def("__init__",
           [](BoundIndex* self, const std::string& directory) {
             const nb::gil_scoped_release unlocked;
             new (self) BoundIndex{DocumentIndex::Open(directory)};
           })
      .def("__len__", [](const BoundIndex& self) { return self.index->size(); })
      .def_prop_ro("fingerprint", [](const BoundIndex& self) { return self.index->fingerprint(); })
      .def_prop_ro("encoder",
                   [](const BoundIndex& self) {
                     return self.index->encoder() ? self.index->encoder()->name : std::string();
                   })
      .def("changes", &Changes)
      .def("search", &Search, nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace banyan::python
