#include "common/text/text.h"
#include "common/torch/device.h"
#include "train_temporal/plan/report.h"

namespace coldframe::plan {
namespace {

Json row_json(const Plan& plan, const Row& row) {
  const Bytes& bytes = row.bytes;
  Json json{{"trained", name_of(row.trained, plan.query)},
            {"blocks", row.trained.blocks},
            {"lora_rank", row.trained.lora_rank},
            {"exams_at_once", row.exams},
            {"strategy", word_for(tune::kStrategies, row.way.strategy)},
            {"chunk", row.way.chunk},
            {"kept_chunks", row.way.kept},
            {"budget", row.way.budget},
            {"schedule", row.schedule},
            {"share", row.share},
            {"trained_parameters", row.trained_parameters},
            {"bytes",
             {{"weights", bytes.weights},
              {"gradients", bytes.gradients},
              {"optimizer", bytes.optimizer},
              {"inputs", bytes.inputs},
              {"activations", bytes.activations},
              {"attention_matrices", bytes.attention},
              {"temporal", bytes.temporal},
              {"allocator", bytes.allocator},
              {"context", bytes.context},
              {"peak", bytes.total()}}},
            {"step_seconds", json_number(row.seconds)}};
  return json;
}

Json measured_json(const Measured& measured) {
  Json peaks = Json::array();
  for (const Measured::Peak& peak : measured.peaks)
    peaks.push_back({{"schedule", peak.schedule},
                     {"predicted", peak.predicted},
                     {"measured", peak.measured},
                     {"predicted_seconds", json_number(peak.predicted_seconds)},
                     {"seconds", json_number(peak.seconds)}});
  return {{"exams", measured.exams}, {"frames", measured.frames}, {"peaks", peaks}};
}

}  // namespace

Json to_json(const Plan& plan) {
  const Query& query = plan.query;
  Json json{{"model", query.model},
            {"architecture", vit::to_json(query.architecture)},
            {"image_size", {query.image_size.height, query.image_size.width}},
            {"exams", query.exams},
            {"frames", query.frames},
            {"half_precision", query.half},
            {"coupled", query.coupled},
            {"device", query.cuda ? "cuda" : "cpu"},
            {"measured_on", device_name(query.machine->device())}};
  json["ways"] = Json::array();
  const std::vector<MostExams> most = most_exams(query, plan.rows);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    Json entry = row_json(plan, plan.rows[i]);
    for (std::size_t card = 0; card < std::size(kCards); ++card)
      entry["most_exams"][concat(kCards[card], "GiB")] = most[i][card];
    json["ways"].push_back(std::move(entry));
  }
  if (plan.answer) {
    const Answer& answer = *plan.answer;
    Json found{{"memory", answer.memory},
               {"trained", name_of(answer.trained, query)},
               {"fits", answer.fastest.has_value()},
               {"each_step_once", row_json(plan, answer.plain)}};
    if (answer.fastest) found["fastest"] = row_json(plan, *answer.fastest);
    found["changes"] = Json::array();
    for (const Change& change : answer.changes)
      found["changes"].push_back({{"change", change.what}, {"way", row_json(plan, change.row)}});
    json["answer"] = std::move(found);
  }
  if (plan.measured) json["measured"] = measured_json(*plan.measured);
  return json;
}

}  // namespace coldframe::plan
