/*
 * compat.h
 *		Every guard on the server's version.
 */
#ifndef OUTBOX_COMPAT_H
#define OUTBOX_COMPAT_H

#include "postgres.h"

#include "access/genam.h"

#if PG_VERSION_NUM < 150000
#error "outbox needs PostgreSQL 15 or later"
#endif

/* 16 took the macros of variable-length types out of postgres.h. */
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif

/* 16 renamed the identifier of a relation's storage. */
#if PG_VERSION_NUM >= 160000
#include "storage/relfilelocator.h"
#define RelationStorageId(rel) ((rel)->rd_locator.relNumber)
#define CompatReadRecentBuffer(rel, block, buffer) \
	ReadRecentBuffer((rel)->rd_locator, MAIN_FORKNUM, block, buffer)
#else
#include "storage/relfilenode.h"
#define RelationStorageId(rel) ((rel)->rd_node.relNode)
#define CompatReadRecentBuffer(rel, block, buffer) \
	ReadRecentBuffer((rel)->rd_node, MAIN_FORKNUM, block, buffer)
#endif

/* 18 added instrumentation to index scans. */
#if PG_VERSION_NUM >= 180000
#define CompatIndexBeginScan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define CompatIndexBeginScan(heap, index, snapshot, nkeys) \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

/* 16 added the summarizing-only argument. */
#if PG_VERSION_NUM >= 160000
#define CompatInsertIndexTuples(rri, slot, estate) \
	ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL, false)
#else
#define CompatInsertIndexTuples(rri, slot, estate) \
	ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL)
#endif

/* 16 keeps the permissions of a query's relations apart from them. */
#if PG_VERSION_NUM >= 160000
#define CompatCheckAsUser(query, role)                                      \
	(linitial_node(RTEPermissionInfo, (query)->rteperminfos)->checkAsUser = \
		 (role))
#else
#define CompatCheckAsUser(query, role) \
	(linitial_node(RangeTblEntry, (query)->rtable)->checkAsUser = (role))
#endif

/* 18 dropped the argument that says whether a query runs once. */
#if PG_VERSION_NUM >= 180000
#define CompatExecutorRun(desc) ExecutorRun(desc, ForwardScanDirection, 0)
#else
#define CompatExecutorRun(desc) \
	ExecutorRun(desc, ForwardScanDirection, 0, true)
#endif

/* 16 made the ownership check generic. */
#if PG_VERSION_NUM >= 160000
#define CompatOwnsRelation(relid, role) \
	object_ownercheck(RelationRelationId, relid, role)
#else
#define CompatOwnsRelation(relid, role) pg_class_ownercheck(relid, role)
#endif

/* 17 lets the writer of a logical message ask for its flush. */
#if PG_VERSION_NUM >= 170000
#define CompatLogMessage(prefix) LogLogicalMessage(prefix, "", 0, false, false)
#else
#define CompatLogMessage(prefix) LogLogicalMessage(prefix, "", 0, false)
#endif

/* 17 counts processes where 15 and 16 number PGPROCs. */
#if PG_VERSION_NUM >= 170000
#define CompatMyProcNumber() MyProcNumber
#else
#define CompatMyProcNumber() (MyProc->pgprocno)
#endif

/* 17 gives wait event sets an owner. */
#if PG_VERSION_NUM >= 170000
#define CompatCreateWaitEventSet(n) CreateWaitEventSet(NULL, n)
#else
#define CompatCreateWaitEventSet(n) CreateWaitEventSet(TopMemoryContext, n)
#endif

/* 18 names the magic block. */
#if PG_VERSION_NUM >= 180000
#define CompatModuleMagic(n, v) PG_MODULE_MAGIC_EXT(.name = n, .version = v)
#else
#define CompatModuleMagic(n, v) PG_MODULE_MAGIC
#endif

/* A hint to the processor. */
#ifdef __GNUC__
#define CompatPrefetchMemory(address) __builtin_prefetch(address)
#else
#define CompatPrefetchMemory(address) ((void) (address))
#endif

#endif
