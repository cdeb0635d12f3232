// Whether training can part the exams by patient.
#pragma once

#include <vector>

#include "extract/inspect/dry_run/findings.h"

namespace coldframe::extract::dry_run {

// Two findings, either of which may be without a case: patients whose exams the column `split` puts
// into several parts, and exams without a patient.
std::vector<Finding> look_at_patients(const frames::ExamList& input);

}  // namespace coldframe::extract::dry_run
