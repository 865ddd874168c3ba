// Indexes of documents, searched by words.
#include "banyan/retrieval.h"

#include "bound.h"
#include "options.h"

namespace banyan::python {
namespace {

struct BoundIndex {
  std::shared_ptr<const DocumentIndex> index;
};

nb::list Search(const BoundIndex& self, const std::string& query, size_t count) {
  std::vector<FoundPassage> found;
  {
    const nb::gil_scoped_release unlocked;
    found = self.index->Search(query, count);
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

}  // namespace

void AddRetrieval(nb::module_& module) {
  module.def(
      "build_index",
      [](const std::string& directory, const std::vector<std::string>& inputs, int passage_words,
         nb::object notice) {
        IndexOptions options;
        options.passage_words = passage_words;
        if (!notice.is_none()) {
          options.notice = [&](const std::string& text) {
            const nb::gil_scoped_acquire gil;
            notice(text);
          };
        }
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
        return fields;
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  nb::class_<BoundIndex>(module, "Index")
      .def("__init__",
           [](BoundIndex* self, const std::string& directory) {
             const nb::gil_scoped_release unlocked;
             new (self) BoundIndex{DocumentIndex::Open(directory)};
           })
      .def("__len__", [](const BoundIndex& self) { return self.index->size(); })
      .def_prop_ro("fingerprint", [](const BoundIndex& self) { return self.index->fingerprint(); })
      .def("search", &Search);
}

}  // namespace banyan::python
