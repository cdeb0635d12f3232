# Tests of labels, splits, metrics and reports; no LibTorch.
coldframe_test(evaluation_tests
  SOURCES
    event_record_test.cpp
    labels_test.cpp
    metrics_calibration_test.cpp
    metrics_intervals_test.cpp
    metrics_test.cpp
    report_test.cpp
    split_files_test.cpp
    split_test.cpp
    targets_test.cpp
  LINK
    coldframe_evaluation)

# Prints every metric of a CSV of scores; test_metrics.py holds it to scikit-learn.
coldframe_program(metrics_driver SOURCES metrics_driver.cpp LINK coldframe_evaluation)
set_target_properties(metrics_driver PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
