// The models that `rag` and its index use beside the one that answers.
#pragma once

#include <memory>
#include <string>

#include "banyan/encoder.h"
#include "banyan/model.h"
#include "banyan/rag.h"

namespace banyan {

// How a model of retrieval is loaded beside the one that `answering` loads: in float32, on the same
// threads; on the CPU where that one is on a GPU, whose memory is for keys and values.
LoadOptions RetrievalLoadOptions(const std::string& name, const LoadOptions& answering);
// The encoder with the name that whoever asks from another folder finds it by, and its hash.
NamedEncoder NameEncoder(std::shared_ptr<Encoder> encoder, const std::string& name);

// The encoder that questions need and nobody gave: the one that made the index. Empty: none.
std::string WantedEncoder(const RagOptions& rag);

}  // namespace banyan
