#include <algorithm>
#include <ranges>

#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/device_memory.h"
#include "train_temporal/plan/report.h"

namespace coldframe::plan {
namespace {

std::string over(double part, double whole) {
  return whole > 0 ? concat(fixed(part / whole, 2), " × the time") : "";
}

// One row where schedules come to the same; their names then stand together.
std::vector<Row> distinct_rows(const std::vector<Row>& rows) {
  std::vector<Row> distinct;
  for (const Row& row : rows) {
    const bool again = !distinct.empty() && distinct.back().trained == row.trained &&
                       distinct.back().bytes.total() == row.bytes.total() &&
                       distinct.back().seconds == row.seconds;
    if (!again)
      distinct.push_back(row);
    else if (distinct.back().schedule != row.schedule)
      distinct.back().schedule += " = " + row.schedule;
  }
  return distinct;
}

// A column that says each name at the first of its rows only.
class Column {
 public:
  std::string operator()(const std::string& name) {
    if (name == last_) return "";
    return last_ = name;
  }

 private:
  std::string last_;
};

bool is_in_chunks(const Plan& plan, const Row& row) {
  return row.trained.blocks > 0 && row.way.chunk < row.exams * plan.query.frames;
}

}  // namespace

double mebibytes(std::uint64_t bytes) {
  return double(bytes) / (1 << 20);
}

std::string mebibytes_text(std::uint64_t bytes) {
  if (bytes == 0) return "-";
  return fixed(mebibytes(bytes), mebibytes(bytes) < 9.95 ? 1 : 0);
}

std::string heading(const Query& query) {
  return concat(query.exams, " exams × ", query.frames, " frames of ", query.image_size, ", ",
                query.half ? "half precision" : "fp32", query.coupled ? ", coupled" : "", ", ",
                query.cuda ? "CUDA" : "CPU");
}

std::string answer_sentence(const Plan& plan) {
  const Answer& answer = *plan.answer;
  const std::string what =
      concat(name_of(answer.trained, plan.query), " at ", plan.query.exams, " × ",
             plan.query.frames, " frames takes ", human_bytes(answer.plain.bytes.total()));
  const std::string memory = human_bytes(answer.memory);
  if (answer.takes_plain()) return concat("Yes: ", what, " of ", memory, '.');
  const std::string kept =
      concat(what, " by '", answer.plain.schedule, "', and ", memory, " are there.");
  if (answer.fastest)
    return concat("Yes, by another schedule: ", kept, " `train --tune` takes '",
                  answer.fastest->schedule,
                  "' by itself: ", human_bytes(answer.fastest->bytes.total()), ", ",
                  over(answer.fastest->seconds, answer.plain.seconds), '.');
  return concat("No: ", kept,
                answer.changes.empty()
                    ? " Nothing that this plan knows fits; give more memory, smaller "
                      "images or a smaller ViT."
                    : "");
}

TextRows change_table(const Plan& plan) {
  TextRows table{{"options of train that change it", "schedule", "peak", "time"}};
  // The first one is another schedule where one fits, which the sentence has told.
  const std::size_t told = plan.answer->fastest && !plan.answer->changes.empty() ? 1 : 0;
  for (const Change& change : plan.answer->changes | std::views::drop(told))
    table.push_back({change.what, change.row.schedule, human_bytes(change.row.bytes.total()),
                     over(change.row.seconds, plan.answer->plain.seconds)});
  return table;
}

TextRows overview_table(const Plan& plan) {
  const bool in_turn = plan.query.exams > 1 && !plan.query.coupled;
  const tune::Way exam{tune::Strategy::kCheap, plan.query.frames, 1};
  TextRows table{{"trained", "none", "time", "cheap", "time"}};
  if (in_turn) table[0].insert(table[0].end(), {"exam by exam", "time"});
  table[0].insert(table[0].end(), {"least memory", "time", "by the schedule"});
  for (const Trained& trained : trained_parts(plan.query)) {
    std::vector<Row> rows;
    std::ranges::copy_if(plan.rows, std::back_inserter(rows),
                         [&](const Row& row) { return row.trained == trained; });
    const Row& least = *std::ranges::min_element(
        rows, {}, [](const Row& row) { return std::pair(row.bytes.total(), row.seconds); });
    std::vector<const Row*> told{&rows.front(), &rows[std::min<std::size_t>(1, rows.size() - 1)]};
    if (in_turn) {
      const auto alone = std::ranges::find_if(
          rows, [&](const Row& row) { return row.exams == 1 && row.way == exam; });
      told.push_back(alone == rows.end() ? &rows.front() : &*alone);
    }
    told.push_back(&least);
    table.push_back({name_of(trained, plan.query)});
    for (const Row* row : told)
      table.back().insert(table.back().end(),
                          {human_bytes(row->bytes.total()), relative_time(plan, *row)});
    table.back().push_back(least.schedule);
  }
  return table;
}

TextRows share_table(const Plan& plan) {
  TextRows table{{"end to end, the ViT's step", "memory", "of none", "time", "by the schedule"}};
  const Row* none = nullptr;
  for (const Row& row : plan.rows) {
    if (row.trained != Trained{plan.query.architecture.depth, 0}) continue;
    if (!none) none = &row;
    const bool in_one_chunk = row.way.chunk == plan.query.all_frames();
    if (row.share == 0 && !in_one_chunk) continue;
    const auto bytes = [](const Row& of) {
      return std::max(of.bytes.activations, of.bytes.temporal);
    };
    table.push_back({row.share > 0 ? concat("in 1/", row.share) : row.schedule,
                     human_bytes(bytes(row)), fixed(double(bytes(row)) / double(bytes(*none)), 2),
                     fixed(row.seconds / none->seconds, 3), row.schedule});
  }
  return table;
}

TextRows way_table(const Plan& plan) {
  TextRows table{{"trained", "schedule", "params M", "weights", "gradients", "optimizer", "inputs",
                  "ViT", "of it N²", "temporal", "allocator", "context", "peak", "time", "epoch"}};
  Column trained;
  for (const Row& row : distinct_rows(plan.rows)) {
    const Bytes& b = row.bytes;
    table.push_back({trained(name_of(row.trained, plan.query)), row.schedule,
                     fixed(double(row.trained_parameters) / 1e6, 2)});
    for (const std::uint64_t bytes : {b.weights, b.gradients, b.optimizer, b.inputs, b.activations,
                                      b.attention, b.temporal, b.allocator, b.context, b.total()})
      table.back().push_back(mebibytes_text(bytes));
    table.back().push_back(relative_time(plan, row));
    table.back().push_back(epoch_time(plan, row));
  }
  return table;
}

TextRows card_table(const Plan& plan) {
  TextRows table{{"trained", "schedule"}};
  for (const std::int64_t card : kCards) table[0].push_back(concat(card, " GiB"));
  const std::vector<Row> rows = distinct_rows(plan.rows);
  const std::vector<MostExams> most = most_exams(plan.query, rows);
  Column trained;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    table.push_back({trained(name_of(rows[i].trained, plan.query)), rows[i].schedule});
    for (const std::int64_t exams : most[i])
      table.back().push_back(exams == 0 ? "-" : concat(exams));
  }
  return table;
}

TextRows peak_table(const Measured& measured) {
  TextRows table{
      {"schedule", "predicted MiB", "measured MiB", "ratio", "predicted s", "measured s"}};
  for (const Measured::Peak& peak : measured.peaks)
    table.push_back({peak.schedule, mebibytes_text(peak.predicted), mebibytes_text(peak.measured),
                     fixed(double(peak.predicted) / double(peak.measured), 3),
                     fixed(peak.predicted_seconds, 3), fixed(peak.seconds, 3)});
  return table;
}

std::string chunk_note(const Plan& plan) {
  std::vector<std::string> notes;
  if (std::ranges::any_of(plan.rows, [&](const Row& row) { return is_in_chunks(plan, row); }))
    notes.emplace_back(
        "N frames at a time: the ViT runs over chunks of N frames; K kept: so many chunks keep "
        "their activations for the way back, the others run forward twice.");
  if (std::ranges::any_of(plan.rows, [&](const Row& row) { return row.exams < plan.query.exams; }))
    notes.emplace_back(
        "N exams at a time: so many go forward and back through ViT and temporal model, then the "
        "next; their gradients add up. A Cox loss and --mixup couple exams: see --coupled.");
  return join(notes, "\n");
}

std::string device_note(const Plan& plan) {
  const torch::Device& device = plan.query.machine->device();
  const std::string measured = concat("Bytes and times are measured on ", device_name(device));
  if (!plan.query.cuda) return measured + ".";
  return concat(measured, device.is_cuda() ? "" : ", since no GPU is there", "; of a GPU some ",
                human_bytes(plan.rows.front().bytes.context),
                " for its context and what its allocator cannot use are estimated, and ",
                human_bytes(cuda_training_workspaces()), " are for workspaces of libraries.");
}

std::string relative_time(const Plan& plan, const Row& row) {
  const Trained all{plan.query.architecture.depth, 0};
  const auto whole = std::ranges::find_if(plan.rows, [&](const Row& other) {
    return other.trained == all && other.way.strategy == tune::Strategy::kNone;
  });
  return whole == plan.rows.end() ? "" : fixed(row.seconds / whole->seconds, 3);
}

std::string epoch_time(const Plan& plan, const Row& row) {
  const double steps = double(plan.epoch_exams) / double(plan.query.exams);
  return human_duration(steps * row.seconds);
}

}  // namespace coldframe::plan
