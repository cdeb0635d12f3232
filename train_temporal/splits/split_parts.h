// All ways of splitting share this: the inner validation part and the checks at the end.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "train_temporal/splits/split.h"

namespace coldframe::temporal {

using NamedPart = std::pair<const char*, const std::vector<std::size_t>*>;
std::array<NamedPart, 3> parts_of(const Split& split);  // train, validation, test

// Moves about a fifth of the training part's patients to the validation part, stratified.
// ConfigError when a single patient would have to serve both.
void take_validation(Split& split, const Targets& targets, const std::vector<std::string>& patients,
                     std::uint64_t seed);

// DataError: an empty part, a patient in two parts, a class absent from the training part. A class
// absent from the validation part is a warning.
void check_parts(const Split& split, const Targets& targets,
                 const std::vector<std::string>& patients, std::vector<std::string>& warnings);

}  // namespace coldframe::temporal
