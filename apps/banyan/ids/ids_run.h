// The lines of `ids` through engine, encoder and tokenizer.
#pragma once

#include <cstdint>
#include <deque>
#include <iosfwd>
#include <map>
#include <memory>
#include <string>

#include "banyan/constrain.h"
#include "banyan/encoder.h"
#include "banyan/engine.h"
#include "banyan/model.h"
#include "banyan/text.h"
#include "ids/ids_fields.h"
#include "ids/ids_rows.h"
#include "ids/ids_texts.h"
#include "job/run_options.h"

namespace banyan::app {

class IdsRun {
 public:
  // A decoder or an encoder or neither, and a tokenizer or none.
  struct Models {
    std::shared_ptr<Model> decoder;
    std::shared_ptr<Encoder> encoder;
    std::shared_ptr<const Text> text;
  };
  IdsRun(const Models& models, const RunOptions& options);

  // Reads everything, decodes it together, writes rows in order. Returns the exit code.
  int Run(std::istream& in, std::ostream& out);

 private:
  // Where an answer belongs.
  struct Place {
    size_t row = 0, context = 0, question = 0;
  };

  void Read(const std::string& line, std::int64_t number);
  // The row never reached the engine: nothing is to come.
  void Refuse(IdsRow& row, ErrorKind kind, const std::string& message);
  Engine& NeedEngine();
  IdsTexts& NeedEncoder();
  const Text& NeedText();
  std::uint64_t NewTag(const Place& place);

  // The kinds of lines; the row is rows_.back().
  void Start(const Json& json);
  void StartLogits(const Json& json);
  void StartGreedy(const Json& json);
  void Submit(Engine& engine, PromptSegment prompt, AnswerRequest answer);
  void StartStacked(const Json& json);
  void StartExperts(const Json& json);
  void StartSkeleton(const Json& json);  // ids_skeleton.cc
  void StartEmbed(const Json& json);
  void StartRerank(const Json& json);
  void Tokenize(const Json& json);
  void Detokenize(const Json& json);
  void Chat(const Json& json);
  void Mask(const Json& json);
  void WriteText(const std::string& text);

  void Collect();
  void Encode();  // what waits for the encoder
  void Finish(IdsRow& row) { row.text = AnswersLine(row); }
  void Fail(IdsRow& row, ErrorKind kind, const std::string& message);
  // Rows leave in order, as soon as all before them are done.
  void Write(std::ostream& out);

  std::shared_ptr<const Text> text_;
  bool explain_;
  bool terminal_;                                 // control characters are shown, not obeyed
  std::unique_ptr<Engine> engine_;                // null without a decoder
  std::unique_ptr<IdsTexts> texts_;               // null without an encoder
  std::shared_ptr<const TokenTrie> trie_;         // of text_, once a mask was asked for
  std::shared_ptr<const Constraint> constraint_;  // of the last line that asked for one
  std::string constraint_source_;
  bool constraint_is_schema_ = false;
  std::deque<IdsRow> rows_;
  size_t first_row_ = 0;  // number of rows_.front()
  std::map<std::uint64_t, Place> places_;
  std::uint64_t next_tag_ = 0;
  bool failed_ = false;
};

}  // namespace banyan::app
