#include "program/rag_models.h"

#include <filesystem>
#include <utility>

namespace banyan {

LoadOptions RetrievalLoadOptions(const std::string& name, const LoadOptions& answering) {
  LoadOptions options;
  options.model = name;
  options.device = answering.device == "cuda" ? "cpu" : answering.device;
  options.threads = answering.threads;
  options.precision = "f32";
  options.progress = answering.progress;
  return options;
}

NamedEncoder NameEncoder(std::shared_ptr<Encoder> encoder, const std::string& name) {
  NamedEncoder named;
  named.encoder = std::move(encoder);
  named.name = std::filesystem::exists(name)
                   ? std::filesystem::absolute(name).lexically_normal().string()
                   : name;
  named.fingerprint = EncoderFingerprint(name);
  return named;
}

std::string WantedEncoder(const RagOptions& rag) {
  if (rag.encoder || !rag.index || rag.index->encoder() == nullptr) return "";
  const bool by_name = rag.relevance == RelevanceFrom::kDense ||
                       rag.relevance == RelevanceFrom::kSparse ||
                       rag.relevance == RelevanceFrom::kMultiVector;
  if (rag.candidates.value_or(Signal::kDense) == Signal::kBm25 && !by_name) return "";
  return rag.index->encoder()->name;
}

}  // namespace banyan
