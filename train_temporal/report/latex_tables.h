// The tables of a report's page, for a paper.
#pragma once

#include <string>

#include "common/charts/html.h"

namespace coldframe::temporal {

// Every table of a page as a LaTeX table environment, captioned by the heading of its section and
// labelled by number ("tab:1", …), with its notes below. They want the packages booktabs and
// graphicx, the latter because tables that are wider than the text are made smaller. Data tables
// (data_table.h) are too long for a paper.
std::string latex_tables(const html::Page& page);

}  // namespace coldframe::temporal
