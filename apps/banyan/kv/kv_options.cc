#include "kv/kv_options.h"

#include "program/option_table.h"
#include "shell/table_options.h"
#include "terminal/screen.h"

namespace banyan::app {

void KvStoreCommand::AddTo(CLI::App& command) {
  TableOptions().AddTo(command, Bind(static_cast<KvStoreUse&>(*this)));
}

void KvStoreCommand::Resolve(EngineOptions& engine) const {
  UseKvStore(*this, engine, [](const std::string& text) { SayLine(text); });
}

}  // namespace banyan::app
