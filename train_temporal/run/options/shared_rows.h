// Options that several commands on features have, as rows.
#pragma once

#include "train_temporal/run/options/options.h"
#include "train_temporal/run/options/rows.h"

namespace coldframe::temporal {

void add_data(OptionRows& rows, TargetOptions& data);
void add_cache(OptionRows& rows, TargetOptions& data);
// The caches that --cache names, which no output may replace.
std::vector<NamedInput> cache_inputs(const TargetOptions& data);
// --horizons, of times to an event.
void add_horizons(OptionRows& rows, TargetOptions& data);
void add_bootstrap(OptionRows& rows, BootstrapOptions& bootstrap);
// An empty device is shown as `cpu, with --input auto`.
void add_machine(OptionRows& rows, std::string& device, std::size_t& threads, bool& json);

// ConfigError where a column is named twice.
void check_questions(const Questions& questions);

}  // namespace coldframe::temporal
