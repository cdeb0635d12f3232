#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/plan/report.h"

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

}  // namespace coldframe::plan
