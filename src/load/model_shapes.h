// Shapes of known models, for random weights.
#pragma once

#include <string>

#include "model/config.h"

namespace banyan {

// Of one of Model::ModelShapes(). Throws kUsage with the list of names.
ModelConfig ConfigOfShape(const std::string& name);

}  // namespace banyan
