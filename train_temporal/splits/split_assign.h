// Puts whole patients into parts so that every part gets its share of every class.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/splits/targets.h"

namespace coldframe::temporal {

// The labelled exams of one patient.
struct PatientGroup {
  std::string patient;
  std::vector<std::size_t> exams;
  std::vector<std::size_t> per_class;  // labels of each stratum: class or bin
};

// Sorted by patient, so that the outcome does not depend on the order of exams in a cache.
std::vector<PatientGroup> group_by_patient(const Targets& targets,
                                           const std::vector<std::string>& patients,
                                           std::span<const std::size_t> exams);

// The part (0 … shares.size() − 1) of each group. `shares` are positive and sum to 1. Greedy in the
// manner of scikit-learn's StratifiedGroupKFold, for unequal shares too and with one aim put first:
// no class is absent from a part if moving a patient helps, large parts being served before small
// ones. Depends on the groups and the key only.
std::vector<std::size_t> assign_groups(std::span<const PatientGroup> groups,
                                       std::span<const double> shares,
                                       std::initializer_list<std::uint64_t> key);

}  // namespace coldframe::temporal
