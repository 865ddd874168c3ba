// Vectors in an index, candidates by one signal and relevance by another, and what does not fit.
#include "retrieve/retriever.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "banyan/error.h"
#include "retrieve/encoder_fixture.h"
#include "retrieve/vector_search.h"
#include "support/error_message.h"
#include "support/temp_directory.h"
#include "support/tiny_encoder.h"

namespace banyan {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using testing_support::ErrorMessage;
using testing_support::TempDirectory;
using testing_support::TinyEncoderShape;

const TinyEncoderShape kBertShape{};
const TinyEncoderShape kM3Shape{.family = "xlm-roberta", .more_heads = true, .seed = 3};
const TinyEncoderShape kRerankerShape{.family = "xlm-roberta", .reranker = true, .seed = 4};

NamedEncoder Load(const TempDirectory& directory, const std::string& name,
                  const TinyEncoderShape& shape) {
  const fs::path path = testing_support::WriteTinyEncoder(shape, directory.path() / name);
  testing_support::WriteLetterTokenizer(path);
  return {encodertest::LoadOn("cpu", path), "tiny", EncoderFingerprint(path.string())};
}

const std::vector<std::string> kTexts = {
    "the ferry leaves the harbour at seven", "tea is grown in the green hills",
    "a yacht with a secret code lies in the harbour", "nothing of this is about boats"};

class RetrieverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (size_t i = 0; i < kTexts.size(); ++i) {
      directory_.Write("docs/" + std::to_string(i) + ".txt", kTexts[i]);
    }
  }
  std::string docs() const { return (directory_.path() / "docs").string(); }
  std::string folder() const { return (directory_.path() / "index").string(); }

  IndexReceipt Build(const NamedEncoder& encoder, VectorSearch search = VectorSearch::kExact) {
    IndexOptions options;
    options.encoder = encoder;
    options.vectors = search;
    return DocumentIndex::Build(folder(), {docs()}, options);
  }

  static Embedding Embed(Encoder& encoder, const std::string& text) {
    const std::vector<TokenId> tokens = EncoderTokens(encoder, text);
    return encoder.Embed(std::span(&tokens, 1)).front();
  }

  TempDirectory directory_;
};

TEST_F(RetrieverTest, EverySignalJudgesAsItsVectorsSay) {
  const std::string question = "which code has the yacht in the harbour";
  NamedEncoder m3;
  Embedding query;
  TinyEncoderShape shape = kM3Shape;
  do {  // random heads may find nothing of weight
    shape.seed++;
    m3 = Load(directory_, "m3-" + std::to_string(shape.seed), shape);
    query = Embed(*m3.encoder, question);
  } while (SparseScore(query.sparse, Embed(*m3.encoder, kTexts[0]).sparse) == 0.0);
  EXPECT_EQ(Build(m3).embedded, 4);
  const auto index = DocumentIndex::Open(folder());
  for (const Signal signal : {Signal::kDense, Signal::kSparse, Signal::kMultiVector}) {
    RetrieverOptions options;
    options.index = index;
    options.encoder = m3;
    options.candidates = signal == Signal::kMultiVector ? Signal::kBm25 : signal;
    options.relevance = signal;
    const Retriever retriever(options);
    const std::vector<Judgement> judged = retriever.Judge(question, kTexts);
    const auto found = retriever.Retrieve(question);
    ASSERT_FALSE(found.empty()) << SignalName(signal);
    for (size_t i = 0; i < found.size(); ++i) {
      const auto p = static_cast<size_t>(found[i].passage);
      const Embedding document = Embed(*m3.encoder, kTexts[p]);
      double score = InnerProduct(document.dense, query.dense);
      double relevance = RelevanceOfCosine(score);
      if (signal == Signal::kSparse) {
        score = SparseScore(document.sparse, query.sparse);
        relevance = RelevanceOfSparse(score);
      }
      if (signal == Signal::kMultiVector) {
        score = MultiVectorScore(query.colbert, document.colbert);
        relevance = RelevanceOfCosine(score);
      }
      EXPECT_EQ(found[i].judgement.score, score) << SignalName(signal);
      EXPECT_EQ(found[i].judgement.relevance, relevance) << SignalName(signal);
      EXPECT_EQ(judged[p].relevance, relevance) << SignalName(signal);
      EXPECT_LE(relevance, found[i > 0 ? i - 1 : 0].judgement.relevance);
    }
  }
}

TEST_F(RetrieverTest, ATextFindsItselfUnderEverySearch) {
  const auto bert = Load(directory_, "bert", kBertShape);
  for (const VectorSearch search :
       {VectorSearch::kExact, VectorSearch::kIvf, VectorSearch::kHnsw}) {
    if (search != VectorSearch::kExact && !HasFaiss()) {
      EXPECT_THROW(Build(bert, search), Error);
      continue;
    }
    Build(bert, search);
    RetrieverOptions options;
    options.index = DocumentIndex::Open(folder());
    options.encoder = bert;
    options.candidates = Signal::kDense;
    options.relevance = Signal::kDense;
    options.top = 2;
    const Retriever retriever(options);
    for (size_t i = 0; i < kTexts.size(); ++i) {
      const auto found = retriever.Retrieve(kTexts[i]);
      ASSERT_EQ(found.size(), 2u);
      EXPECT_EQ(found[0].passage, static_cast<int>(i)) << VectorSearchName(search);
      EXPECT_NEAR(*found[0].judgement.score, 1.0, 1e-5);
    }
  }
}

TEST_F(RetrieverTest, ARerankerIsFusedOrJudgesAlone) {
  const auto reranker = Load(directory_, "reranker", kRerankerShape);
  Build({});
  const std::string question = "the secret harbour";
  RetrieverOptions options;
  options.index = DocumentIndex::Open(folder());
  options.reranker = reranker;
  options.top = 2;
  const Retriever both(options);
  options.relevance.reset();
  const Retriever alone(options);
  const auto fused = both.Judge(question, kTexts);
  const auto judged = alone.Judge(question, kTexts);
  for (size_t i = 0; i < kTexts.size(); ++i) {
    const std::vector<TokenId> pair = RerankerTokens(*reranker.encoder, question, kTexts[i]);
    const double logit = reranker->Rerank(std::span(&pair, 1)).front();
    EXPECT_EQ(judged[i].logit, logit);
    EXPECT_EQ(judged[i].relevance, RelevanceOfLogit(logit));
    EXPECT_FALSE(judged[i].score);
    EXPECT_EQ(fused[i].relevance,
              FusedRelevance(RelevanceOfBm25(*fused[i].score), RelevanceOfLogit(logit)));
  }
  // Both look at more candidates than they keep, and keep the most relevant.
  const auto found = both.Retrieve(question);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_GE(found[0].judgement.relevance, found[1].judgement.relevance);
}

TEST_F(RetrieverTest, APairIsQuestionAndDocumentBetweenSeparators) {
  const auto reranker = Load(directory_, "reranker", kRerankerShape);
  constexpr TokenId kCls = 2, kSep = 3, kA = 4, kB = 5;
  EXPECT_EQ(RerankerTokens(*reranker.encoder, "a", "b"),
            (std::vector<TokenId>{kCls, kA, kSep, kSep, kB, kSep}));
  std::string words;
  for (int i = 0; i < 400; ++i) words += "b ";
  const std::vector<TokenId> cut = RerankerTokens(*reranker.encoder, "a", words);
  EXPECT_EQ(cut.size(), static_cast<size_t>(reranker->usual_length()));
  EXPECT_EQ(cut.back(), kSep);
  EXPECT_THROW(RerankerTokens(*reranker.encoder, words, "b"), Error);
}

TEST_F(RetrieverTest, OnlyNewPassagesGoThroughTheEncoder) {
  const auto m3 = Load(directory_, "m3", kM3Shape);
  Build(m3);
  const std::string before = DocumentIndex::Open(folder())->fingerprint();
  IndexReceipt receipt = Build(m3);
  EXPECT_EQ(receipt.embedded, 0);
  EXPECT_EQ(receipt.kept, 4);
  EXPECT_EQ(DocumentIndex::Open(folder())->fingerprint(), before);
  directory_.Write("docs/1.txt", "tea is drunk in the harbour");
  receipt = Build(m3);
  EXPECT_EQ(receipt.embedded, 1);
  EXPECT_EQ(receipt.kept, 3);
  TinyEncoderShape other = kM3Shape;
  other.seed = 8;
  EXPECT_EQ(Build(Load(directory_, "other", other)).embedded, 4);
}

TEST_F(RetrieverTest, WhatDoesNotFitIsSaid) {
  const auto bert = Load(directory_, "bert", kBertShape);
  const auto reranker = Load(directory_, "reranker", kRerankerShape);
  Build({});
  RetrieverOptions options;
  options.index = DocumentIndex::Open(folder());
  const auto message = [&](ErrorKind kind) {
    return ErrorMessage(kind, [&] { const Retriever retriever(options); });
  };
  options.relevance = Signal::kDense;
  EXPECT_THAT(message(ErrorKind::kUsage), HasSubstr("--encoder MODEL"));
  options.encoder = bert;
  EXPECT_THAT(message(ErrorKind::kUnsupported), HasSubstr("words alone, no dense vectors"));
  options.encoder = reranker;
  EXPECT_THAT(message(ErrorKind::kUnsupported), HasSubstr("--reranker"));
  options = {};
  options.reranker = bert;
  EXPECT_THAT(message(ErrorKind::kUnsupported), HasSubstr("--encoder"));
  options = {};
  options.relevance.reset();
  EXPECT_THAT(message(ErrorKind::kUsage), HasSubstr("--reranker MODEL"));

  Build(bert);
  options = {};
  options.index = DocumentIndex::Open(folder());
  options.candidates = options.relevance.emplace(Signal::kDense);
  TinyEncoderShape other = kBertShape;
  other.seed = 9;
  options.encoder = Load(directory_, "other", other);
  EXPECT_THAT(message(ErrorKind::kInput), HasSubstr("made by another encoder, 'tiny'"));
  other.hidden = 64;
  options.encoder = Load(directory_, "wide", other);
  EXPECT_THAT(message(ErrorKind::kInput), HasSubstr("48 dimensions by 'tiny'"));
  options.encoder = bert;
  options.candidates = Signal::kSparse;
  EXPECT_THAT(message(ErrorKind::kUnsupported), HasSubstr("no sparse vectors"));
  EXPECT_THAT(ErrorMessage(ErrorKind::kUnsupported, [&] { Build(reranker); }),
              HasSubstr("is a reranker"));
}

}  // namespace
}  // namespace banyan
