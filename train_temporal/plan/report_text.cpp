#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/plan/report.h"

namespace coldframe::plan {
namespace {

void write_measured(const Measured& measured, std::ostream& out) {
  out << "\nMeasured on " << measured.device << ", "
      << plural(static_cast<std::size_t>(measured.exams), "exam") << " of "
      << plural(static_cast<std::size_t>(measured.frames), "frame")
      << " in a step, KiB (predicted / measured):\n";
  const auto pair = [](std::uint64_t a, std::uint64_t b) {
    return concat(a / 1024, " / ", b / 1024);
  };
  TextRows table{{"step", "output", "forward"}};
  std::vector<std::string> words;
  for (const tune::Keep keep : measured.measured.front().keeps()) {
    words.push_back(word_for(tune::kKeepWords, keep));
    table[0].insert(table[0].end(), {words.back() + ": saved", "backward"});
  }
  table[0].insert(table[0].end(), {"ms forward", concat("backward ", join(words, ", "))});
  for (std::size_t i = 0; i < measured.names.size(); ++i) {
    const tune::StepCost &a = measured.predicted[i], &b = measured.measured[i];
    std::vector<std::string> row{measured.names[i], pair(a.output, b.output),
                                 pair(a.forward_extra, b.forward_extra)};
    std::vector<std::string> back;
    for (const tune::Keep keep : b.keeps()) {
      row.push_back(pair(a.graph(keep).saved, b.graph(keep).saved));
      row.push_back(pair(a.graph(keep).backward_extra, b.graph(keep).backward_extra));
      back.push_back(fixed(1e3 * b.graph(keep).backward, 1));
    }
    row.insert(row.end(), {fixed(1e3 * b.forward, 1), join(back, ", ")});
    table.push_back(std::move(row));
  }
  write_table(table, out);
  out << "\n";
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
  if (const std::string note = device_note(plan); !note.empty()) out << note << "\n";
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

}  // namespace coldframe::plan
