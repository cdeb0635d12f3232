# Labels, splits, metrics and reports: plain C++ over vectors, no LibTorch.
coldframe_library(coldframe_evaluation
  SOURCES
    calibration.cpp
    calibration_line.cpp
    intervals.cpp
    labels.cpp
    metrics.cpp
    metrics_ranking.cpp
    report.cpp
    report_charts.cpp
    report_curves.cpp
    report_summary.cpp
    report_text.cpp
    report_verdict.cpp
    split.cpp
    split_assign.cpp
    split_files.cpp
    split_parts.cpp
  LINK
    coldframe_cache coldframe_common)
