// A tokenizer of letters for tiny encoders: [CLS] l e t ##t … [SEP], 56 tokens, lower case.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>

namespace banyan::testing_support {

// Writes tokenizer.json beside a model's other files.
inline void WriteLetterTokenizer(const std::filesystem::path& directory) {
  std::string vocab = R"("[PAD]":0,"[UNK]":1,"[CLS]":2,"[SEP]":3)";
  int next = 4;
  for (const char* prefix : {"", "##"}) {
    for (char letter = 'a'; letter <= 'z'; ++letter) {
      vocab += ",\"" + std::string(prefix) + letter + "\":" + std::to_string(next++);
    }
  }
  std::string added;
  int id = 0;
  for (const char* token : {"[PAD]", "[UNK]", "[CLS]", "[SEP]"}) {
    added += std::string(added.empty() ? "" : ",") + "{\"id\":" + std::to_string(id++) +
             ",\"content\":\"" + token +
             "\",\"special\":true,\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
             "\"normalized\":false}";
  }
  std::ofstream(directory / "tokenizer.json")
      << "{\"version\":\"1.0\",\"added_tokens\":[" << added
      << R"(],"normalizer":{"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,)"
      << R"("strip_accents":null,"lowercase":true},"pre_tokenizer":{"type":"BertPreTokenizer"},)"
      << R"("post_processor":{"type":"TemplateProcessing","single":[)"
      << R"({"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}},)"
      << R"({"SpecialToken":{"id":"[SEP]","type_id":0}}],"pair":[],"special_tokens":{)"
      << R"("[CLS]":{"id":"[CLS]","ids":[2],"tokens":["[CLS]"]},)"
      << R"("[SEP]":{"id":"[SEP]","ids":[3],"tokens":["[SEP]"]}}},)"
      << R"("decoder":{"type":"WordPiece","prefix":"##","cleanup":true},)"
      << R"("model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",)"
      << R"("max_input_chars_per_word":100,"vocab":{)" << vocab << "}}}";
}

}  // namespace banyan::testing_support
