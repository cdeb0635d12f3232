// What a report says of each control: the table of sentences.
#pragma once

#include <span>
#include <string_view>

#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// In place of a control's name: the model of another run that the report compares with.
inline constexpr std::string_view kAgainst = "{against}";

enum class Said { kAlways, kIfLearnt, kIfLearntOrWorse };

// What is said of a control, by how the main model compares with it. Words in braces are those of
// words_for() in report_verdict.cpp.
struct Claim {
  std::string_view control;  // its name, or how names of such controls begin
  Said said;
  std::string_view figures;  // what the figure is of
  std::string_view better, worse, equal, undecided;
  std::string_view what = {};  // {What}, and with a small letter {what}
  // Where the control was not trained, but the question arises.
  std::string_view unexamined = {};
  bool (*arises)(const TargetReport&) = nullptr;
  bool only_if_arises = false;    // then it is not said of other models
  std::string_view though = {};   // added to `better` where the control is better than chance
  bool better_if_learnt = false;  // else it is undecided
  bool worse_leads = false;       // then it is said before all else
};

// In the order in which they are said.
std::span<const Claim> claims();

}  // namespace coldframe::temporal
