// Encoder configurations: what is read, what is left to the family, and what is refused.
#include "model/encoder_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/json.h"
#include "support/error_message.h"
#include "support/gguf_writer.h"

namespace banyan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::GgufWriter;

// MiniLM's configuration with `changes` (an object; null takes a key away) laid over it.
std::string ConfigWith(const std::string& changes) {
  Json config = Json::parse(R"({"architectures":["BertModel"],"model_type":"bert",
      "vocab_size":30522,"hidden_size":384,"num_hidden_layers":6,"num_attention_heads":12,
      "intermediate_size":1536,"max_position_embeddings":512,"layer_norm_eps":1e-12,
      "hidden_act":"gelu","pad_token_id":0,"type_vocab_size":2,
      "position_embedding_type":"absolute"})");
  config.merge_patch(Json::parse(changes));
  return config.dump();
}

std::string EncoderMessage(ErrorKind kind, const std::string& changes,
                           const std::string& pooling = "") {
  return ErrorMessage(kind,
                      [&] { EncoderConfigFromHuggingFace(ConfigWith(changes), pooling, "model"); });
}

TEST(EncoderConfig, Bert) {
  const EncoderConfig config = EncoderConfigFromHuggingFace(ConfigWith("{}"), "", "model");
  EXPECT_EQ(config.family, "bert");
  EXPECT_EQ(config.vocab_size, 30522);
  EXPECT_EQ(config.head_dim(), 32);
  EXPECT_EQ(config.context_length(), 512);
  EXPECT_EQ(config.first_position, 0);
  EXPECT_EQ(config.norm_eps, 1e-12f);
  EXPECT_EQ(config.pooling, Pooling::kMean);
  EXPECT_FALSE(config.reranks);
  EXPECT_THAT(config.special_ids, ElementsAre(0));
}

TEST(EncoderConfig, XlmRobertaCountsPositionsFromBehindThePadding) {
  const EncoderConfig config = EncoderConfigFromHuggingFace(
      ConfigWith(R"({"model_type":"xlm-roberta","architectures":["XLMRobertaModel"],
          "max_position_embeddings":8194,"pad_token_id":1,"bos_token_id":0,"eos_token_id":2})"),
      "", "model");
  EXPECT_EQ(config.first_position, 2);
  EXPECT_EQ(config.context_length(), 8192);
  EXPECT_EQ(config.pooling, Pooling::kFirst);
  EXPECT_THAT(config.special_ids, ElementsAre(0, 1, 2));
}

TEST(EncoderConfig, RerankersAreClassifiersOfOneLabel) {
  const std::string reranker =
      R"({"model_type":"xlm-roberta","architectures":["XLMRobertaForSequenceClassification"])";
  EXPECT_TRUE(EncoderConfigFromHuggingFace(ConfigWith(reranker + R"(,"id2label":{"0":"LABEL_0"}})"),
                                           "", "model")
                  .reranks);
  EXPECT_THAT(
      EncoderMessage(ErrorKind::kUnsupported, reranker + R"(,"id2label":{"0":"a","1":"b"}})"),
      HasSubstr("2 labels"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kUnsupported,
                             R"({"architectures":["BertForSequenceClassification"]})"),
              HasSubstr("BertForSequenceClassification"));
}

TEST(EncoderConfig, Pooling) {
  const auto pooling_of = [](const std::string& text) {
    return EncoderConfigFromHuggingFace(ConfigWith("{}"), text, "model").pooling;
  };
  EXPECT_EQ(pooling_of(R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":false})"),
            Pooling::kFirst);
  EXPECT_EQ(pooling_of(R"({"pooling_mode_cls_token":false,"pooling_mode_mean_tokens":true})"),
            Pooling::kMean);
  EXPECT_THAT(EncoderMessage(ErrorKind::kUnsupported, "{}", R"({"pooling_mode_max_tokens":true})"),
              HasSubstr("pooling_mode_max_tokens"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kUnsupported, "{}",
                             R"({"pooling_mode_cls_token":true,"pooling_mode_mean_tokens":true})"),
              HasSubstr("1_Pooling/config.json"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kFormat, "{}", "not json"),
              HasSubstr("1_Pooling/config.json"));
}

TEST(EncoderConfig, ModulesThatWouldChangeTheVectors) {
  const std::string usual = R"({"type":"sentence_transformers.models.Transformer"},
      {"type":"sentence_transformers.models.Pooling"},
      {"type":"sentence_transformers.models.Normalize"})";
  CheckSentenceModules("[" + usual + "]", "model");
  const std::string message = ErrorMessage(ErrorKind::kUnsupported, [&] {
    CheckSentenceModules("[" + usual + R"(,{"type":"sentence_transformers.models.Dense"}])",
                         "model");
  });
  EXPECT_THAT(message,
              HasSubstr("model/modules.json: module 'sentence_transformers.models.Dense'"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [] { CheckSentenceModules("{}", "model"); }),
              HasSubstr("expected a list"));
}

TEST(EncoderConfig, TextLimit) {
  EXPECT_EQ(ReadTextLimit(R"({"max_seq_length":256,"do_lower_case":false})", "model"), 256);
  EXPECT_EQ(ReadTextLimit(R"({"max_seq_length":null})", "model"), 0);
  EXPECT_THAT(
      ErrorMessage(ErrorKind::kFormat, [] { ReadTextLimit(R"({"max_seq_length":-1})", "model"); }),
      HasSubstr("model/sentence_bert_config.json"));
}

TEST(EncoderConfig, RefusesWhatItDoesNotHave) {
  EXPECT_THAT(EncoderMessage(ErrorKind::kUnsupported, R"({"model_type":"distilbert"})"),
              HasSubstr("bert, roberta, xlm-roberta"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kUnsupported, R"({"hidden_act":"relu"})"),
              HasSubstr("relu"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kUnsupported, R"({"is_decoder":true})"),
              HasSubstr("decoder"));
  EXPECT_THAT(
      EncoderMessage(ErrorKind::kUnsupported, R"({"position_embedding_type":"relative_key"})"),
      HasSubstr("relative_key"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kFormat, R"({"num_attention_heads":7})"),
              HasSubstr("7 heads"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kFormat, R"({"num_attention_heads":0})"),
              HasSubstr("heads"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kFormat, R"({"vocab_size":null})"),
              HasSubstr("vocab_size"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kFormat, R"({"layer_norm_eps":0})"), HasSubstr("epsilon"));
  EXPECT_THAT(EncoderMessage(ErrorKind::kFormat, R"({"model_type":"roberta","pad_token_id":511})"),
              HasSubstr("first position"));
}

GgufWriter MiniGguf(std::uint32_t pooling_type) {
  GgufWriter writer;
  writer.String("general.architecture", "bert");
  writer.U32("bert.embedding_length", 8);
  writer.U32("bert.block_count", 1);
  writer.U32("bert.attention.head_count", 2);
  writer.U32("bert.feed_forward_length", 16);
  writer.F32("bert.attention.layer_norm_epsilon", 1e-12f);
  writer.U32("bert.pooling_type", pooling_type);
  writer.U32("tokenizer.ggml.cls_token_id", 3);
  const std::vector<float> values(80, 0.0f);
  const std::vector<std::int64_t> tokens = {10, 8}, positions = {6, 8};
  writer.TensorF32("token_embd.weight", tokens, values);
  writer.TensorF32("position_embd.weight", positions, std::span(values).first(48));
  return writer;
}

EncoderConfig ReadGguf(const std::string& bytes) {
  return EncoderConfigFromGguf(GgufFile(std::as_bytes(std::span(bytes)), "m.gguf"));
}

TEST(EncoderConfig, Gguf) {
  const EncoderConfig config = ReadGguf(MiniGguf(2).Bytes());
  EXPECT_EQ(config.vocab_size, 10);
  EXPECT_EQ(config.context_length(), 6);
  EXPECT_EQ(config.pooling, Pooling::kFirst);
  EXPECT_THAT(config.special_ids, ElementsAre(3));
  EXPECT_EQ(ReadGguf(MiniGguf(1).Bytes()).pooling, Pooling::kMean);
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [] { ReadGguf(MiniGguf(3).Bytes()); }),
              HasSubstr("pooling_type"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [] { ReadGguf(MiniGguf(4).Bytes()); }),
              HasSubstr("cls.output.weight"));
  GgufWriter vocabulary;
  vocabulary.String("general.architecture", "bert");
  EXPECT_THAT(ErrorMessage(ErrorKind::kFormat, [&] { ReadGguf(vocabulary.Bytes()); }),
              HasSubstr("vocabulary without tensors"));
  GgufWriter causal = MiniGguf(1);
  causal.Bool("bert.attention.causal", true);
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { ReadGguf(causal.Bytes()); }),
              HasSubstr("causal"));
}

}  // namespace
}  // namespace banyan
