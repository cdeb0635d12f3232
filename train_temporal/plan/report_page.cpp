#include <algorithm>
#include <array>
#include <utility>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/plan/report.h"

namespace coldframe::plan {
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
