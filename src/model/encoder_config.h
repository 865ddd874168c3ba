// What an encoder is, as data: the BERT family (BERT, MiniLM, BGE), RoBERTa and XLM-R (BGE-M3, its
// rerankers). Read from a Hugging Face config.json or from GGUF metadata. Decoders have config.h.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "banyan/types.h"
#include "formats/gguf.h"

namespace banyan {

// How the vectors of a text's tokens become one.
enum class Pooling { kMean, kFirst };

struct EncoderConfig {
  std::string family;  // "bert", "roberta", "xlm-roberta"
  int vocab_size = 0;
  int hidden_size = 0;
  int layers = 0;
  int heads = 0;  // divides hidden_size
  int ffn_size = 0;
  int position_rows = 0;   // of the table of positions
  int first_position = 0;  // the row of a text's first token
  float norm_eps = 1e-12f;
  Pooling pooling = Pooling::kMean;
  bool reranks = false;              // has a classifier of one logit, and gives no vectors
  std::vector<TokenId> special_ids;  // those that the configuration names; ascending

  int head_dim() const { return hidden_size / heads; }
  int context_length() const { return position_rows - first_position; }  // tokens of one text
};

bool IsEncoderFamily(std::string_view model_type);                        // of config.json
bool IsEncoderArchitecture(std::string_view architecture);                // of GGUF
inline constexpr char kEncoderFamilies[] = "bert, roberta, xlm-roberta";  // for messages

// `text` is the content of config.json, `pooling` that of 1_Pooling/config.json (may be empty: mean
// for BERT, the first token for the others); `where` names the directory in errors. Throws kFormat
// on a bad or missing value, kUnsupported on what we do not have.
EncoderConfig EncoderConfigFromHuggingFace(const std::string& text, const std::string& pooling,
                                           const std::string& where);
// Tokens that texts are cut to by the model's makers, as sentence_bert_config.json (`text`) of
// `where` says; 0: nothing is said.
int ReadTextLimit(const std::string& text, const std::string& where);
// Throws kUnsupported when modules.json (`text`) of `where` names a step besides the network,
// pooling and normalising, such as a further layer: the vectors would be others than the model's.
void CheckSentenceModules(const std::string& text, const std::string& where);
// XLM-R too is architecture "bert" there, with a tokenizer of its own.
// Throws kFormat naming a tensor of a block beyond `layers`, which `key` declares: a model, encoder
// or not, would answer with some of its layers left out.
void RefuseMoreBlocks(const GgufFile& gguf, const std::string& key, int layers);

EncoderConfig EncoderConfigFromGguf(const GgufFile& gguf);

}  // namespace banyan
