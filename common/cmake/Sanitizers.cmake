if(COLDFRAME_SANITIZE STREQUAL "thread")
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=thread>)
  add_link_options(-fsanitize=thread)
elseif(COLDFRAME_SANITIZE OR COLDFRAME_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=address,undefined>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize-recover=undefined>
                      $<$<COMPILE_LANGUAGE:C,CXX>:-fno-omit-frame-pointer>)
  # The wheel's libraries carry no vptr type information for UBSan to check against.
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fno-sanitize=vptr>)
  add_link_options(-fsanitize=address,undefined)
endif()
if(COLDFRAME_FUZZ)
  add_compile_options($<$<COMPILE_LANGUAGE:C,CXX>:-fsanitize=fuzzer-no-link>)
endif()
