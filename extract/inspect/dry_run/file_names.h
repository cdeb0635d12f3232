// What the names of files give away: frames of several patients in one exam, masks beside images.
#pragma once

#include <vector>

#include "extract/inspect/dry_run/findings.h"

namespace coldframe::extract::dry_run {

// Two findings, either of which may be without a case. Names such as "pat1_1" and "pat2_1" count
// frames anew for another number before; "x_mask" is the mask of "x" where that is there as well.
std::vector<Finding> look_at_file_names(const frames::ExamList& input);

}  // namespace coldframe::extract::dry_run
