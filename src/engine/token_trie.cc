// The tokenizer behind a Text → the trie that constraints walk.
#include "constrain/token_trie.h"

#include "banyan/constrain.h"
#include "engine/model_parts.h"

namespace banyan {

std::shared_ptr<const TokenTrie> MakeTokenTrie(const Text& text) {
  return std::make_shared<const TokenTrie>(text.parts().tokenizer);
}

}  // namespace banyan
