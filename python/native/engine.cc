// Engine: requests in, events out. Trees come as nested dicts, events go out as dicts; the package
// has classes for both.
#include <optional>

#include "bound.h"
#include "options.h"

namespace banyan::python {
namespace {

struct BoundEngine {
  BoundEngine(BoundModel& owner, const EngineOptions& options)
      : model(owner.model.get("model")), compute_lock(owner.compute_lock), engine(Make(options)) {}
  ~BoundEngine() { Close(); }

  std::shared_ptr<Engine> Make(const EngineOptions& options) {
    compute_lock->BeginEngine();
    try {
      auto made = std::make_shared<Engine>(model, options);
      made->Start();
      return made;
    } catch (...) {
      compute_lock->End();
      throw;
    }
  }

  void Close() {
    if (engine.closed()) return;
    engine.Drop();
    compute_lock->End();
  }

  std::shared_ptr<Model> model;
  std::shared_ptr<ComputeLock> compute_lock;
  ProcessBound<Engine> engine;
};

AnswerRequest AnswerRequestOf(const nb::dict& values, BoundModel& model) {
  AnswerRequest request;
  OptionReader reader(values);
  std::string regex, schema;
  nb::object panel = reader.Find("panel");
  reader.Read("tag", request.tag);
  reader.Read("max_new", request.max_new);
  reader.Read("stop_tokens", request.stop_tokens);
  reader.Read("stop", request.stop_strings);
  ReadSampling(reader, request.sampling);
  reader.Read("top_logprobs", request.top_logprobs);
  reader.Read("request_key", request.request_key);
  reader.Read("question_key", request.question_key);
  reader.Read("sample_key", request.sample_key);
  reader.Read("forced", request.forced);
  reader.Read("regex", regex);
  reader.Read("json_schema", schema);
  reader.Read("want_logits", request.want_logits);
  reader.Read("stream", request.stream);
  reader.Finish();
  request.constraint = model.ConstraintOf(regex, schema);
  if (panel.is_valid()) {
    OptionReader of_panel(nb::cast<nb::dict>(panel));
    PanelOptions options;
    ReadPanel(of_panel, options);
    of_panel.Finish();
    request.panel = options;
  }
  return request;
}

PromptSegment SegmentOf(const nb::dict& values, BoundModel& model) {
  PromptSegment segment;
  OptionReader reader(values);
  reader.Read("tokens", segment.tokens);
  reader.Read("skeleton", segment.skeleton);
  reader.Read("adapter", segment.adapter);
  std::int32_t first = 0;
  if (reader.Find("first_position").is_valid()) {
    reader.Read("first_position", first);
    segment.first_position = first;
  }
  const nb::object below = reader.Find("below"), answers = reader.Find("answers"),
                   experts = reader.Find("experts");
  reader.Finish();
  if (below.is_valid()) {
    for (const nb::handle child : below) {
      segment.below.push_back(SegmentOf(nb::cast<nb::dict>(child), model));
    }
  }
  if (answers.is_valid()) {
    for (const nb::handle answer : answers) {
      segment.answers.push_back(AnswerRequestOf(nb::cast<nb::dict>(answer), model));
    }
  }
  if (experts.is_valid()) {
    for (const nb::handle expert : experts) {
      const auto [tag, relevance] = nb::cast<std::pair<std::uint64_t, double>>(expert);
      segment.experts.push_back({tag, relevance});
    }
  }
  return segment;
}

nb::object TextOf(const std::string& text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list TopOf(const std::vector<std::vector<ScoredToken>>& top) {
  nb::list places;
  for (const std::vector<ScoredToken>& tokens : top) {
    nb::list place;
    for (const ScoredToken& token : tokens) {
      place.append(nb::make_tuple(token.token, token.logprob));
    }
    places.append(place);
  }
  return places;
}

nb::dict AnswerOf(Answer& answer) {
  nb::dict fields;
  fields["tag"] = answer.tag;
  fields["finish_reason"] = FinishReasonName(answer.finish);
  fields["tokens"] = answer.tokens;
  fields["logprobs"] = ArrayOf(std::move(answer.logprobs));
  fields["top"] = TopOf(answer.top);
  fields["text"] = TextOf(answer.text);
  fields["prompt_logits"] =
      answer.prompt_logits.empty() ? nb::none() : ArrayOf(std::move(answer.prompt_logits));
  fields["experts"] = answer.experts;
  fields["betas"] = answer.betas;
  fields["abstentions"] = answer.abstentions;
  fields["error"] = TextOf(answer.error);
  fields["prompt_tokens"] = answer.prompt_tokens;
  fields["cached_tokens"] = answer.cached_tokens;
  fields["first_token_seconds"] = answer.first_token_seconds;
  fields["seconds"] = answer.seconds;
  return fields;
}

nb::list TakeEvents(BoundEngine& self, double seconds) {
  const std::shared_ptr<Engine> engine = self.engine.get("engine");
  std::vector<AnswerEvent> events;
  {
    const nb::gil_scoped_release unlocked;
    events = engine->TakeEvents(seconds);
  }
  nb::list list;
  for (AnswerEvent& event : events) {
    nb::dict fields;
    fields["request"] = event.request;
    fields["tag"] = event.tag;
    fields["number"] = event.number;
    fields["tokens"] = event.tokens;
    fields["logprobs"] = event.logprobs;
    fields["top"] = TopOf(event.top);
    fields["text"] = TextOf(event.text);
    fields["ended"] = event.ended;
    fields["answer"] = event.ended ? nb::object(AnswerOf(event.answer)) : nb::none();
    list.append(fields);
  }
  return list;
}

// Waits for room without holding the GIL, so that others can take answers and make some.
RequestId Submit(BoundEngine& self, BoundModel& model, const nb::dict& tree, int priority) {
  const std::shared_ptr<Engine> engine = self.engine.get("engine");
  PromptSegment segment = SegmentOf(tree, model);
  SubmitOptions options;
  options.priority = priority;
  Interruption interruption;
  const nb::gil_scoped_release unlocked;
  while (true) {
    if (const auto id = engine->TrySubmit(segment, options)) return *id;
    if (interruption.Pending()) {
      const nb::gil_scoped_acquire gil;
      interruption.Raise();
    }
    ::usleep(1000);
  }
}

nb::dict ReceiptOf(BoundEngine& self) {
  const std::shared_ptr<Engine> engine = self.engine.get("engine");
  Receipt receipt;
  {
    const nb::gil_scoped_release unlocked;
    receipt = engine->receipt();
  }
  nb::dict fields;
  fields["prompt_tokens"] = receipt.prompt_tokens;
  fields["prefilled_tokens"] = receipt.prefilled_tokens;
  fields["copied_tokens"] = receipt.copied_tokens;
  fields["loaded_tokens"] = receipt.loaded_tokens;
  fields["saved_tokens"] = receipt.saved_tokens;
  fields["generated_tokens"] = receipt.generated_tokens;
  fields["steps"] = receipt.steps;
  fields["streams"] = receipt.streams;
  fields["failed"] = receipt.failed;
  fields["cancelled"] = receipt.cancelled;
  fields["preempted"] = receipt.preempted;
  fields["kv_bytes_peak"] = receipt.kv_bytes_peak;
  fields["kv_bytes_total"] = receipt.kv_bytes_total;
  fields["kv_bytes_held"] = receipt.kv_bytes_held;
  fields["state_bytes_peak"] = receipt.state_bytes_peak;
  fields["state_bytes_total"] = receipt.state_bytes_total;
  fields["first_token_median"] = receipt.first_token_median;
  fields["first_token_p99"] = receipt.first_token_p99;
  fields["next_token_median"] = receipt.next_token_median;
  fields["next_token_p99"] = receipt.next_token_p99;
  return fields;
}

}  // namespace

void AddEngine(nb::module_& module) {
  nb::class_<BoundEngine>(module, "Engine")
      .def("__init__",
           [](BoundEngine* self, BoundModel& model, const nb::dict& options) {
             const EngineOptions read = ReadAll(options, EngineOptionsOf);
             const nb::gil_scoped_release unlocked;
             new (self) BoundEngine(model, read);
           })
      .def("submit", &Submit)
      .def("cancel",
           [](BoundEngine& self, RequestId request) {
             const std::shared_ptr<Engine> engine = self.engine.get("engine");
             const nb::gil_scoped_release unlocked;
             engine->Cancel(request);
           })
      .def("cancel_tag",
           [](BoundEngine& self, RequestId request, std::uint64_t tag) {
             const std::shared_ptr<Engine> engine = self.engine.get("engine");
             const nb::gil_scoped_release unlocked;
             engine->Cancel(request, tag);
           })
      .def("take_events", &TakeEvents)
      .def("shutdown",
           [](BoundEngine& self, bool finish) {
             const std::shared_ptr<Engine> engine = self.engine.get("engine");
             const nb::gil_scoped_release unlocked;
             engine->Shutdown(finish ? Unfinished::kFinish : Unfinished::kCancel);
           })
      .def("close",
           [](BoundEngine& self) {
             const nb::gil_scoped_release unlocked;
             self.Close();
           })
      .def_prop_ro("closed", [](const BoundEngine& self) { return self.engine.closed(); })
      .def_prop_ro("waiting",
                   [](const BoundEngine& self) { return self.engine.get("engine")->waiting(); })
      .def_prop_ro("running",
                   [](const BoundEngine& self) { return self.engine.get("engine")->running(); })
      .def("receipt", &ReceiptOf)
      .def("explain", [](BoundEngine& self) {
        const std::shared_ptr<Engine> engine = self.engine.get("engine");
        const nb::gil_scoped_release unlocked;
        return engine->Explain();
      });
}

}  // namespace banyan::python
