# The one file that knows FAISS.
if(faiss_FOUND)
  set_source_files_properties(${dir}/vector_search.cc PROPERTIES
    COMPILE_DEFINITIONS BANYAN_WITH_FAISS=1)
endif()
