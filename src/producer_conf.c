/*
 * producer_conf.c
 *		Options to a client's configuration, without repeating their values.
 */
#include "postgres.h"

#include <librdkafka/rdkafka.h>

#include "producer_conf.h"

static const char *ValueProblem(char *text);

rd_kafka_conf_t *
ProducerConf(const ProducerOption *options, int noptions, char *errbuf,
			 size_t errlen)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char text[PRODUCER_ERRLEN];

	/* Clients since 2.5 push metrics to the broker unless told not to. */
	(void) rd_kafka_conf_set(conf, "enable.metrics.push", "false", NULL, 0);

	for (int i = 0; i < noptions; i++)
	{
		const char *name = options[i].name;

		switch (rd_kafka_conf_set(conf, name, options[i].value, text,
								  sizeof(text)))
		{
			case RD_KAFKA_CONF_OK:
				continue;
			case RD_KAFKA_CONF_UNKNOWN:
				snprintf(errbuf, errlen,
						 "there is no configuration property \"%s\"", name);
				break;
			default:
				snprintf(errbuf, errlen,
						 "value of configuration property \"%s\" is %s", name,
						 ValueProblem(text));
		}
		rd_kafka_conf_destroy(conf);
		return NULL;
	}

	/* Everything the client has to say comes through its main queue. */
	rd_kafka_conf_set_events(conf, RD_KAFKA_EVENT_DR | RD_KAFKA_EVENT_ERROR |
									   RD_KAFKA_EVENT_LOG);
	(void) rd_kafka_conf_set(conf, "log.queue", "true", NULL, 0);
	return conf;
}

bool
ProducerConfLingers(const rd_kafka_conf_t *conf)
{
	char value[32];
	size_t size = sizeof(value);

	if (rd_kafka_conf_get(conf, "linger.ms", value, &size) != RD_KAFKA_CONF_OK)
		return false;
	return atof(value) > 0;
}

/*
 * Most of the library's texts repeat the value, which may be secret.  These
 * tell the range of a number, or what the build lacks.
 */
static const char *
ValueProblem(char *text)
{
	const char *problem;

	text[strcspn(text, "\n")] = '\0';
	if ((problem = strstr(text, "outside allowed range")) != NULL ||
		(problem = strstr(text, "not supported in this build")) != NULL)
		return problem;
	return "not valid";
}
