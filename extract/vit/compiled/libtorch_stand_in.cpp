// A library with the soname of libtorch.so and nothing in it. Compiled models ask for libtorch.so,
// which holds nothing either, but pulls in CUDA's libraries: on a machine without them no package
// for CPUs could be loaded.
extern "C" void coldframe_libtorch_stand_in() {}
