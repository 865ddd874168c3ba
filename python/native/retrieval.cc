// Indexes of documents, searched by words or by an encoder's vectors.
#include "banyan/retrieval.h"

#include "bound.h"
#include "options.h"

namespace banyan::python {
namespace {

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

nb::dict Build(const std::string& directory, const std::vector<std::string>& inputs,
               int passage_words, BoundEncoder* encoder, const std::string& vectors,
               const nb::object& notice, const nb::object& progress) {
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
    receipt = DocumentIndex::Build(directory, inputs, options);
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

void AddRetrieval(nb::module_& module) {
  module.def("build_index", &Build, nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg(),
             nb::arg().none(), nb::arg().none());
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
      .def("search", &Search, nb::arg(), nb::arg(), nb::arg().none());
}

}  // namespace banyan::python
