// The sections of report.html, of one target or of the whole run.
#pragma once

#include <string>

#include "common/charts/html.h"
#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// `of`: what the headings add to tell targets apart, " of 'age'" or nothing.
void add_result(html::Page& page, const RunReport& report, const std::string& of);
void add_shift(html::Page& page, const RunReport& report);
void add_data(html::Page& page, const RunReport& report, const std::string& of);
void add_run(html::Page& page, const RunReport& report);

}  // namespace coldframe::temporal
