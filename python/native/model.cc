// Models and their text side.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "bound.h"
#include "options.h"
#include "program/hub.h"
#include "program/models.h"

namespace banyan::python {
namespace {

// Looks after every matrix whether it is to end: Ctrl-C, or what `look` raises.
std::shared_ptr<Model> LoadInterruptibly(const nb::dict& values, nb::object look) {
  LoadOptions options = ReadAll(values, LoadOptionsOf);
  Interruption interruption(std::move(look));
  options.progress = [&](std::int64_t, std::int64_t) { interruption.Check(); };
  const nb::gil_scoped_release unlocked;
  return Model::Load(options);
}

// Fetches from the hub what this machine does not have; ended as loading is.
void BringInterruptibly(const std::string& name, bool adapter, const nb::object& say,
                        nb::object look) {
  Interruption interruption(std::move(look));
  const nb::gil_scoped_release unlocked;
  const auto tell = [&](const std::string& text) {
    const nb::gil_scoped_acquire gil;
    say(text);
  };
  const auto check = [&](std::int64_t, std::int64_t) { interruption.Check(); };
  adapter ? BringAdapter(name, tell, check) : BringModel(name, tell, check);
}

// The text side of a model alone.
struct BoundText {
  std::shared_ptr<const Text> text;
};

nb::dict SummaryOf(const std::string& model) {
  ModelSummary summary;
  {
    const nb::gil_scoped_release unlocked;
    summary = DescribeModel(model);
  }
  nb::dict fields;
  fields["path"] = summary.path;
  fields["family"] = summary.family;
  fields["layers"] = summary.layers;
  fields["hidden_size"] = summary.hidden_size;
  fields["heads"] = summary.heads;
  fields["kv_heads"] = summary.kv_heads;
  fields["head_dim"] = summary.head_dim;
  fields["ffn_size"] = summary.ffn_size;
  fields["vocab_size"] = summary.vocab_size;
  fields["context_length"] = summary.context_length;
  fields["parameters"] = summary.parameters;
  fields["file_bytes"] = summary.file_bytes;
  fields["tensor_types"] = summary.tensor_types;
  fields["tokenizer"] = summary.tokenizer;
  fields["has_chat_template"] = summary.has_chat_template;
  return fields;
}

// (model, adapter) of a task, from what is named; "" is nobody's name, and no adapter.
std::pair<std::string, std::string> ReaderOf(const std::string& task, const std::string& model,
                                             const std::string& adapter) {
  const ReaderTask wanted = task == "extract" ? ReaderTask::kExtract
                            : task == "rag"   ? ReaderTask::kRag
                                              : ReaderTask::kAsk;
  DefaultReader reader = ReaderFor(wanted, model, adapter);
  return {std::move(reader.model), std::move(reader.adapter)};
}

}  // namespace

void AddModel(nb::module_& module) {
  module.def("default_model", [] { return DefaultModel(); });
  module.def("reader", &ReaderOf);
  module.def("ship_models_from", &ShipModelsFrom);
  module.def("path_of_adapter", [](const std::string& adapter) { return PathOfAdapter(adapter); });
  module.def("path_of_model", [](const std::string& model) { return PathOfModel(model); });
  module.def("is_encoder", [](const std::string& model) { return Encoder::IsEncoder(model); });
  module.def("describe_model", &SummaryOf);
  module.def("files_of_model", [](const std::string& model) { return FilesOfModel(model); });
  module.def("option_names", &OptionNamesOf);
  module.def("read_options", &CheckOptionsOf);    // nothing is done with them
  module.def("option_table", &OptionTablesJson);  // every row as JSON
  module.def("fetchable_models", [] { return FetchableModels(); });
  module.def("fetch_model", [](const std::string& name, const nb::object& say) {
    const nb::gil_scoped_release unlocked;
    return FetchModel(name, [&](const std::string& text) {
      const nb::gil_scoped_acquire gil;
      say(text);
    });
  });
  module.def("bring_model", &BringInterruptibly, nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  nb::class_<BoundText>(module, "Tokenizer")
      .def("__init__",
           [](BoundText* self, const std::string& path) {
             const nb::gil_scoped_release unlocked;
             new (self) BoundText{Text::Load(path)};
           })
      .def("encode", [](const BoundText& self, const std::string& text, bool add_special,
                        bool parse_special) {
        const nb::gil_scoped_release unlocked;
        return self.text->Encode(text, add_special, parse_special);
      });
  nb::class_<BoundModel>(module, "Model")
      .def(
          "__init__",
          [](BoundModel* self, const nb::dict& options, nb::object look) {
            new (self) BoundModel(LoadInterruptibly(options, std::move(look)));
          },
          nb::arg(), nb::arg().none())
      .def("close",
           [](BoundModel& self) {
             const nb::gil_scoped_release unlocked;
             self.model.Drop();
           })
      .def_prop_ro("closed", [](const BoundModel& self) { return self.model.closed(); })
      .def_prop_ro("vocab_size",
                   [](const BoundModel& self) { return self.model.get("model")->vocab_size(); })
      .def_prop_ro("context_length",
                   [](const BoundModel& self) { return self.model.get("model")->context_length(); })
      .def_prop_ro("end_tokens",
                   [](const BoundModel& self) { return self.model.get("model")->end_tokens(); })
      .def_prop_ro("adapters",
                   [](const BoundModel& self) { return self.model.get("model")->adapters(); })
      .def_prop_ro("backend",
                   [](const BoundModel& self) { return self.model.get("model")->backend_name(); })
      .def_prop_ro("precision",
                   [](const BoundModel& self) { return self.model.get("model")->precision(); })
      .def_prop_ro("weight_bytes",
                   [](const BoundModel& self) { return self.model.get("model")->weight_bytes(); })
      .def_prop_ro("identity",
                   [](const BoundModel& self) { return self.model.get("model")->identity(); })
      .def_prop_ro("fingerprint",
                   [](const BoundModel& self) { return self.model.get("model")->fingerprint(); })
      .def_prop_ro("has_text",
                   [](const BoundModel& self) { return bool(self.model.get("model")->text()); })
      .def_prop_ro("has_chat_template",
                   [](const BoundModel& self) { return self.text()->has_chat_template(); })
      .def_prop_ro("bos", [](const BoundModel& self) { return self.text()->bos(); })
      .def("encode",
           [](const BoundModel& self, const std::string& text, bool add_special,
              bool parse_special) {
             const auto words = self.text();
             const nb::gil_scoped_release unlocked;
             return words->Encode(text, add_special, parse_special);
           })
      .def("decode",
           [](const BoundModel& self, const std::vector<TokenId>& tokens, bool skip_special) {
             const std::string text = self.text()->Decode(tokens, skip_special);
             // Tokens may end inside a character.
             return nb::steal(PyUnicode_DecodeUTF8(
                 text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
           })
      .def("chat_tokens",
           [](const BoundModel& self, const std::string& messages, bool add_generation_prompt,
              const std::string& extra) {
             const auto words = self.text();
             const nb::gil_scoped_release unlocked;
             return words->EncodeChat(words->RenderChat(messages, add_generation_prompt, extra));
           })
      .def("chat_text", [](const BoundModel& self, const std::string& messages,
                           bool add_generation_prompt, const std::string& extra) {
        std::string text;
        for (const ChatText& piece :
             self.text()->RenderChat(messages, add_generation_prompt, extra)) {
          text += piece.text;
        }
        return text;
      });
}

}  // namespace banyan::python
