// Options that all commands on features have.
#pragma once

#include <boost/program_options.hpp>
#include <string>

#include "train_temporal/run/options/options.h"

namespace coldframe::temporal {

void add_data(boost::program_options::options_description& description, std::string& cache,
              std::string& labels, TargetOptions& data);
// --horizons, of times to an event.
void add_horizons(boost::program_options::options_description& description, TargetOptions& data);
// Questions to a report beside its usual figures.
void add_questions(boost::program_options::options_description& description, Questions& questions);
// `device`: what is shown as the default; "" for `cpu, with --input auto`.
void add_machine(boost::program_options::options_description& description, std::string& device,
                 std::size_t& threads, bool& json);

void require_given(const std::string& value, const char* option);  // ConfigError

}  // namespace coldframe::temporal
