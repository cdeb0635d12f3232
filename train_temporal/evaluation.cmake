# Labels, splits, metrics and reports: plain C++ over vectors, no LibTorch.
coldframe_library(coldframe_evaluation
  SOURCES
    calibration.cpp
    calibration_line.cpp
    intervals.cpp
    labels.cpp
    metrics.cpp
    metrics_ranking.cpp
    split.cpp
    split_assign.cpp
    split_files.cpp
    split_parts.cpp
  LINK
    coldframe_common)
