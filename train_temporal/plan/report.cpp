#include "train_temporal/plan/report.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <utility>

#include "common/charts/html.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "common/torch/memory.h"

namespace coldframe::plan {

namespace {

void write_measured(const Measured& measured, std::ostream& out) {
  out << "\nSteps that ran, of " << plural(static_cast<std::size_t>(measured.exams), "exam")
      << " of " << plural(static_cast<std::size_t>(measured.frames), "frame") << ":\n";
  write_table(peak_table(measured), out);
}

}  // namespace

void write_text(const Plan& plan, bool all, std::ostream& out) {
  if (plan.answer) {
    out << answer_sentence(plan) << "\n\n";
    if (const TextRows changes = change_table(plan); changes.size() > 1) {
      write_table(changes, out);
      out << "\n";
    }
  }
  const Query& query = plan.query;
  out << query.model << ", " << heading(query) << "; time relative to end to end\n";
  out << device_note(plan) << "\n";
  if (all) {
    out << "\nEvery way, MiB of a training step\n";
    write_table(way_table(plan), out);
    out << "\nThe most exams of " << query.frames << " frames in a step on a card\n";
    write_table(card_table(plan), out);
  } else {
    write_table(overview_table(plan), out);
    if (!plan.answer) {
      out << "\n";
      write_table(share_table(plan), out);
    }
  }
  if (const std::string note = chunk_note(plan); !note.empty()) out << "\n" << note << "\n";
  if (!all) out << "--all: every way, and what fits on a card\n";
  if (plan.measured) write_measured(*plan.measured, out);
}

namespace {

std::string over(double part, double whole) {
  return whole > 0 ? fixed(part / whole, 2) : "";
}

// Of what `over()` gives the times.
std::string time_of_plain(const Answer& answer) {
  return concat("× the time of '", answer.plain.schedule, "'");
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
    return concat(
        "Yes, by another schedule: ", kept, " `train --tune` takes '", answer.fastest->schedule,
        "' by itself: ", human_bytes(answer.fastest->bytes.total()), ", ",
        over(answer.fastest->seconds, answer.plain.seconds), ' ', time_of_plain(answer), '.');
  return concat("No: ", kept,
                answer.changes.empty()
                    ? " Nothing that this plan knows fits; give more memory, smaller "
                      "images or a smaller ViT."
                    : "");
}

TextRows change_table(const Plan& plan) {
  TextRows table{
      {"options of train that change it", "schedule", "peak", time_of_plain(*plan.answer)}};
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
        "their activations for the backward pass, the others run forward twice.");
  if (std::ranges::any_of(plan.rows, [&](const Row& row) { return row.exams < plan.query.exams; }))
    notes.emplace_back(
        "N exams at a time: so many go forward and back through ViT and temporal model, then the "
        "next; their gradients add up. A Cox loss and --mixup couple exams: see --coupled.");
  return join(notes, "\n");
}

std::string device_note(const Plan& plan) {
  const torch::Device& device = plan.query.machine->device();
  const std::string measured = concat("Bytes and times are measured on ", device_name(device));
  if (!plan.query.cuda)
    return concat(measured, "; bytes are of tensors: a process takes LibTorch and what it keeps ",
                  "on top.");
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

namespace {

using html::Chart;
using html::Series;
using tune::Strategy;

struct Schedule {
  std::string name;
  tune::Schedule operations;
};

// For all frames of a step at once: everything kept, what train takes where memory is no matter,
// and the fastest in parts of the first one's memory.
std::vector<Schedule> schedules(const tune::ChunkCost& cost) {
  std::vector<Schedule> found;
  for (const Strategy strategy : {Strategy::kNone, Strategy::kCheap})
    found.push_back({word_for(tune::kStrategies, strategy),
                     tune::make_schedule(strategy, cost.chain, cost.input)});
  const std::uint64_t whole = tune::simulate(found.front().operations, cost.chain, cost.input).peak;
  for (const std::uint64_t share : kShares) {
    tune::Schedule best =
        tune::make_schedule(Strategy::kOptimal, cost.chain, cost.input, whole / share);
    if (!best.empty()) found.push_back({concat("optimal in 1/", share), std::move(best)});
  }
  return found;
}

// Live bytes over the step's time, as stairs.
std::string over_the_step(const Plan& plan, const Trained& trained, const tune::ChunkCost& cost) {
  Chart chart{"The ViT's memory over a step, all frames at once",
              "time, relative to the step that keeps everything",
              "MiB",
              {}};
  double whole = 0;
  for (const Schedule& schedule : schedules(cost)) {
    Series series{schedule.name, {0.0}, {0.0}, {}, {}};
    const auto moments = tune::memory_over_time(schedule.operations, cost.chain, cost.input);
    double at = 0;
    for (std::size_t i = 0; i < moments.size(); ++i) {
      series.x.insert(series.x.end(),
                      {at, at += tune::seconds_of(schedule.operations[i], cost.chain), at});
      series.y.insert(series.y.end(), {mebibytes(moments[i].highest), mebibytes(moments[i].highest),
                                       mebibytes(moments[i].after)});
    }
    if (whole == 0) whole = at;
    for (double& x : series.x) x /= whole;
    chart.series.push_back(std::move(series));
  }
  if (plan.answer && plan.answer->trained == trained) {
    const Bytes& bytes = plan.answer->plain.bytes;
    const std::uint64_t beside = bytes.total() - std::max(bytes.activations, bytes.temporal);
    const double left = mebibytes(plan.answer->memory) - mebibytes(beside);
    double end = 0;
    for (const Series& series : chart.series) end = std::max(end, series.x.back());
    const std::string name = concat("left of ", human_bytes(plan.answer->memory));
    if (left > 0) chart.series.push_back({name, {0.0, end}, {left, left}, {}, {}});
  }
  chart.large = true;
  return html::line_chart(chart);
}

// Tells what each step holds until its way back by what is kept, and the peak at it by schedule.
html::Body by_layer(const std::vector<std::string>& names, const tune::ChunkCost& cost) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> header{"step", "output"};
  for (const tune::Keep keep : tune::kKeeps)
    header.push_back(concat("graph, ", word_for(tune::kKeepWords, keep)));
  const std::vector<Schedule> all = schedules(cost);
  for (const Schedule& schedule : all) header.push_back(schedule.name + ": peak");
  std::vector<std::vector<std::uint64_t>> peaks(all.size(),
                                                std::vector<std::uint64_t>(names.size(), 0));
  for (std::size_t s = 0; s < all.size(); ++s) {
    const auto moments = tune::memory_over_time(all[s].operations, cost.chain, cost.input);
    for (std::size_t i = 0; i < moments.size(); ++i) {
      std::uint64_t& peak = peaks[s][all[s].operations[i].step];
      peak = std::max(peak, moments[i].highest);
    }
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    const tune::StepCost& step = cost.chain[i];
    rows.push_back({names[i], fixed(mebibytes(step.output), 1)});
    for (const tune::Keep keep : tune::kKeeps)
      rows.back().push_back(fixed(mebibytes(step.graph(keep).saved), 1));
    for (const auto& peak : peaks) rows.back().push_back(fixed(mebibytes(peak[i]), 1));
  }
  return html::table(header, rows);
}

std::string layer_bars(const std::vector<std::string>& names, const tune::ChunkCost& cost) {
  std::vector<html::Bar> bars;
  for (std::size_t i = 0; i < names.size(); ++i)
    bars.push_back({names[i], mebibytes(cost.chain[i].output +
                                        cost.chain[i].graph(tune::Keep::kCheap).saved)});
  return html::bar_chart("What each layer keeps for its way back, cheaply", bars, "MiB");
}

html::Body table(TextRows rows) {
  const std::vector<std::string> header = std::move(rows.front());
  rows.erase(rows.begin());
  return html::table(header, rows);
}

std::string paragraph(const std::string& text) {
  return text.empty() ? "" : "<p>" + html::escape(text) + "</p>";
}

html::Body answer(const Plan& plan) {
  html::Body body = paragraph(answer_sentence(plan));
  if (const TextRows changes = change_table(plan); changes.size() > 1) body += table(changes);
  return body;
}

}  // namespace

std::string to_page(const Plan& plan) {
  const Query& query = plan.query;
  html::Page page("Memory plan of " + query.model, concat(heading(query), ". ", device_note(plan)));
  if (plan.answer) page.section("Does it fit?", answer(plan));
  page.section("What can be trained", table(overview_table(plan)) + table(share_table(plan)) +
                                          paragraph(chunk_note(plan)));
  for (const Trained& trained :
       {Trained{query.architecture.depth, 0},
        Trained{std::max<std::int64_t>(query.architecture.depth / 3, 1), 0}}) {
    const auto costs = query.machine->costs(query, trained);
    const tune::ChunkCost cost = costs->chunk(query.all_frames());
    html::Body body = over_the_step(plan, trained, cost);
    body += layer_bars(costs->names, cost);
    body += by_layer(costs->names, cost);
    page.section(concat(name_of(trained, query), ", MiB"), std::move(body));
  }
  page.section("Every way, MiB", table(way_table(plan)));
  page.section(concat("The most exams of ", query.frames, " frames in a step on a card"),
               table(card_table(plan)));
  if (plan.measured) page.section("Steps that ran", table(peak_table(*plan.measured)));
  return page.finish();
}

}  // namespace coldframe::plan
