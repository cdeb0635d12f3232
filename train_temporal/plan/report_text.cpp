#include <algorithm>

#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/plan/report.h"

namespace coldframe::plan {
namespace {

std::string mib_text(std::uint64_t bytes) {
  if (bytes == 0) return "-";
  const double value = double(bytes) / (1 << 20);
  return fixed(value, value < 9.95 ? 1 : 0);
}

TextRows row_table(const Plan& plan) {
  TextRows table{{"trained", "schedule", "params M", "weights", "gradients", "optimizer", "inputs",
                  "ViT", "N²", "temporal", "allocator", "context", "peak MiB", "time"}};
  if (plan.measured) table[0].emplace_back("epoch");
  const Trained* before = nullptr;
  for (const Row& row : plan.rows) {
    const bool again = before != nullptr && *before == row.trained;
    before = &row.trained;
    const Bytes& bytes = row.bytes;
    table.push_back({again ? "" : name_of(row.trained, plan.query), row.schedule,
                     fixed(double(row.trained_parameters) / 1e6, 2), mib_text(bytes.weights),
                     mib_text(bytes.gradients), mib_text(bytes.optimizer), mib_text(bytes.inputs),
                     mib_text(bytes.activations), mib_text(bytes.attention),
                     mib_text(bytes.temporal), mib_text(bytes.allocator), mib_text(bytes.context),
                     mib_text(bytes.total()), relative_time(plan, row)});
    if (plan.measured) table.back().push_back(epoch_time(plan, row));
  }
  return table;
}

TextRows card_table(const Plan& plan) {
  TextRows table{{"trained", "schedule"}};
  for (const std::int64_t card : kCards) table[0].push_back(concat(card, " GiB"));
  const Trained* before = nullptr;
  for (const Row& row : plan.rows) {
    const bool again = before != nullptr && *before == row.trained;
    before = &row.trained;
    table.push_back({again ? "" : name_of(row.trained, plan.query), row.schedule});
    for (const std::int64_t card : kCards) {
      const std::int64_t exams =
          most_exams(plan.query, row, static_cast<std::uint64_t>(card) * kGiB);
      table.back().push_back(exams == 0 ? "-" : concat(exams, " × ", plan.query.frames));
    }
  }
  return table;
}

void write_answer(const Plan& plan, std::ostream& out) {
  const Answer& answer = *plan.answer;
  const std::string memory = human_bytes(answer.memory);
  const std::string what = concat(name_of(answer.trained, plan.query), " at ", plan.query.exams,
                                  " × ", plan.query.frames, " frames");
  if (answer.plain.bytes.total() <= answer.memory) {
    out << "\nYes: " << what << " takes " << human_bytes(answer.plain.bytes.total()) << " of "
        << memory << " with everything kept.\n";
    return;
  }
  out << "\n"
      << (answer.fastest ? "Yes, by another schedule: " : "No: ") << what << " takes "
      << human_bytes(answer.plain.bytes.total()) << " with everything kept, and " << memory
      << " are there.\n";
  if (answer.changes.empty()) {
    out << "Nothing that this plan knows fits; give more memory, smaller images or a smaller "
           "ViT.\n";
    return;
  }
  out << "What to change, in options of `coldframe train`:\n";
  TextRows table;
  for (const Change& change : answer.changes)
    table.push_back({"  " + change.what, change.row.schedule, human_bytes(change.row.bytes.total()),
                     answer.plain.work > 0
                         ? concat(fixed(change.row.work / answer.plain.work, 2), " × the time")
                         : ""});
  write_table(table, out);
}

void write_measured(const Measured& measured, std::ostream& out) {
  out << "\nMeasured on this machine, "
      << plural(static_cast<std::size_t>(measured.frames), "frame")
      << " at a time, KiB (predicted / measured):\n";
  const auto pair = [](std::uint64_t a, std::uint64_t b) {
    return concat(a / 1024, " / ", b / 1024);
  };
  TextRows table{{"step", "output", "saved", "forward", "backward", "ms forward", "ms backward"}};
  for (std::size_t i = 0; i < measured.names.size(); ++i) {
    const tune::StepCost &a = measured.predicted[i], &b = measured.measured[i];
    table.push_back({measured.names[i], pair(a.output, b.output), pair(a.saved, b.saved),
                     pair(a.forward_extra, b.forward_extra),
                     pair(a.backward_extra, b.backward_extra), fixed(1e3 * b.forward, 1),
                     fixed(1e3 * b.backward, 1)});
  }
  write_table(table, out);
  out << "\n";
  table = {{"schedule", "predicted MiB", "measured MiB", "ratio", "predicted s", "measured s"}};
  for (const Measured::Peak& peak : measured.peaks)
    table.push_back({peak.schedule, mib_text(peak.predicted), mib_text(peak.measured),
                     fixed(double(peak.predicted) / double(peak.measured), 3),
                     fixed(peak.predicted_seconds, 3), fixed(peak.seconds, 3)});
  write_table(table, out);
}

}  // namespace

std::string relative_time(const Plan& plan, const Row& row) {
  const Trained all{plan.query.architecture.depth, 0};
  const auto whole = std::ranges::find_if(plan.rows, [&](const Row& other) {
    return other.trained == all && other.way.strategy == tune::Strategy::kNone &&
           other.way.kept == 1;
  });
  return whole == plan.rows.end() ? "" : fixed(row.work / whole->work, 3);
}

std::string epoch_time(const Plan& plan, const Row& row) {
  if (!plan.measured || plan.epoch_exams == 0) return "";
  const double steps = double(plan.epoch_exams) / double(plan.query.exams);
  return human_duration(steps * row.work * plan.measured->seconds_per_work);
}

void write_text(const Plan& plan, std::ostream& out) {
  const Query& query = plan.query;
  out << query.model << ", " << query.exams << " exams × " << query.frames << " frames of "
      << query.image_size << ", " << (query.half ? "half precision" : "fp32") << ", "
      << (query.cuda ? "CUDA" : "CPU")
      << "; MiB of a training step; time relative to end to end\n\n";
  write_table(row_table(plan), out);
  out << "\nThe most exams × frames of a step on a card of\n";
  write_table(card_table(plan), out);
  if (plan.measured) write_measured(*plan.measured, out);
  if (plan.answer) write_answer(plan, out);
}

}  // namespace coldframe::plan
