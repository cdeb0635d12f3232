// The linear model of summaries of the frames as nodes of a growing graph.
#pragma once

#include <optional>
#include <string>

#include "train_temporal/models/summary/summary_model.h"
#include "train_temporal/onnx/graph.h"

namespace coldframe::onnx {

// Why a graph cannot have it: of streams, frames may lack features, and a graph knows no visits.
std::optional<std::string> no_summary_graph(const temporal::ModelConfig& config,
                                            const temporal::SummaryModel& model);

// [batch, C] from an input `features` [batch, frames, D] and, of slopes per second, `time` as other
// models have it. Without the term of covariates.
Value summary_graph(Graph& graph, const temporal::ModelConfig& config,
                    const temporal::SummaryModel& model);

}  // namespace coldframe::onnx
