// Several documents of one entity, each read like any other document, and one row for all of them.
// Either every document has values of its own, which are fused when all are there
// (extract_fuse.h), or every slot is a panel (banyan/request.h): the same slot of all documents
// writes one value, token by token.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tasks/extract/extract_task.h"
#include "tasks/extract/extract_work.h"

namespace banyan {

constexpr size_t kMostEntityDocuments = 256;

// A record with documents: what all have in common, and the text of each.
struct ExtractEntity {
  ExtractRecord record;  // without a text
  struct Document {
    nlohmann::ordered_json id;
    ExtractRecord record;
  };
  std::vector<Document> documents;  // one or more, their ids differ
};

bool HasDocuments(const InputRow& row);
// The documents of `row`; `common` is what the row says beside them. Throws kInput.
ExtractEntity ReadEntity(const InputRow& row, ExtractRecord common);

class ExtractPanel : public RecordWork {
 public:
  ExtractPanel(const ExtractSettings& settings, ExtractEntity entity);

  std::vector<PromptSegment> NextPrompts() override;
  void Take(Answer answer) override;
  void Refuse(const Error& error) override;
  OutputRow Row(size_t) override;

  // The rows of ExtractWork, of one document after another.
  std::string Show();
  std::vector<std::string> Layouts();

 private:
  struct Reader {
    nlohmann::ordered_json id;
    std::unique_ptr<ExtractWork> work;
  };
  // Where an answer goes: to one document, or to all that wrote it.
  struct Target {
    size_t reader = 0;
    std::uint64_t tag = 0;
  };

  bool together() const { return settings_.options.fuse == FuseMode::kTokens; }
  void GiveTags(PromptSegment& segment, size_t reader);
  void Link(PromptSegment& lead, PromptSegment& other, size_t reader);
  std::vector<ExtractedValue> Values() const;

  const ExtractSettings& settings_;
  ExtractRecord record_;
  std::vector<Reader> readers_;  // of the documents that have words; of the first, if none has
  std::vector<std::vector<Target>> targets_;  // [tags]
  std::optional<RowProblem> problem_;
};

}  // namespace banyan
