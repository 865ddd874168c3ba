// The models that `rag` and its index use beside the one that answers.
#pragma once

#include <memory>
#include <string>

#include "banyan/encoder.h"
#include "banyan/model.h"
#include "banyan/rag.h"

namespace banyan {

// How to load the retrieval model `name` (an encoder, a reranker) beside the model that answers,
// which `answering` loads: in float32, on as many threads; on the CPU if that model is on a GPU,
// whose memory is for its keys and values.
LoadOptions RetrievalLoadOptions(const std::string& name, const LoadOptions& answering);
// `encoder` with its hash and the name that an index keeps: a path is made absolute, so that the
// encoder is found from any folder.
NamedEncoder NameEncoder(std::shared_ptr<Encoder> encoder, const std::string& name);

// The name of the encoder that made the index, where questions need it and the options give none.
// Empty: no encoder is needed.
std::string WantedEncoder(const RagOptions& rag);

}  // namespace banyan
